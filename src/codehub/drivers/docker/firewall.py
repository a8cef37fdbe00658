"""The rules that separate workspaces from each other, from this machine and from its neighbours. Pure.

They are one nftables table per installation, replaced in one transaction, so they do not depend on which chains the
engine keeps, and its restarts do not touch them. An `accept` ends only our own chain; a `drop` is final.
Whoever dials a workspace is on the engine's machine: packets of those connections are `established` on the way back,
so a workspace can answer, and cannot begin.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network, collapse_addresses

from codehub.drivers.docker.options import DockerOptions, Outbound

# Not the internet: this network, private, carrier, loopback, link-local (169.254.169.254), test, multicast, reserved.
PRIVATE = (
    "0.0.0.0/8",
    "10.0.0.0/8",
    "100.64.0.0/10",
    "127.0.0.0/8",
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.0.0.0/24",
    "192.168.0.0/16",
    "198.18.0.0/15",
    "224.0.0.0/4",
    "240.0.0.0/4",
)
# A cloud's metadata and the like: never reached by a workspace, whatever the settings allow, but for names (port 53).
# The third is public by its number; IPv6 (fd00:ec2::254) is dropped as a whole.
METADATA = ("169.254.0.0/16", "100.100.100.200/32", "168.63.129.16/32")


@dataclass(frozen=True, slots=True)
class StoreAccess:
    """How jobs reach the archive store: given addresses, or (none given) anywhere on the internet, at its port."""

    port: int
    addresses: tuple[str, ...] = ()


def rules(options: DockerOptions, name_servers: Sequence[str], store: StoreAccess | None) -> str:
    """The whole table, for `nft -f`."""
    workspaces, jobs = options.bridge, options.job_bridge
    lines = [
        f"add table inet {options.table}",
        f"delete table inet {options.table}",
        f"table inet {options.table} {{",
        "  chain input {",
        "    type filter hook input priority -10; policy accept;",
        *_indented(_to_machine(workspaces)),
        *_indented(_to_machine(jobs, _store_rules(jobs, store) if store and store.addresses else [])),
        "  }",
        "  chain forward {",
        "    type filter hook forward priority -10; policy accept;",
        *_indented(_apart(workspaces)),
        *_indented(_apart(jobs)),
        *_indented(_outbound(options, name_servers)),
        *_indented(_store_rules(jobs, store, name_servers)),
        f'    iifname "{jobs}" drop',
        "  }",
        "}",
    ]
    return "\n".join(lines) + "\n"


def _to_machine(bridge: str, exceptions: Sequence[str] = ()) -> list[str]:
    return [f'iifname "{bridge}" ct state established,related accept', *exceptions, f'iifname "{bridge}" drop']


def _apart(bridge: str) -> list[str]:
    """Neither between the containers of one bridge, nor in from anywhere else."""
    return [
        f'iifname "{bridge}" oifname "{bridge}" drop',
        f'oifname "{bridge}" ct state established,related accept',
        f'oifname "{bridge}" drop',
        f'iifname "{bridge}" ct state established,related accept',
    ]


def _outbound(options: DockerOptions, name_servers: Sequence[str]) -> list[str]:
    source = f'iifname "{options.bridge}"'
    if options.outbound is Outbound.NONE:
        return [f"{source} drop"]
    lines = [*_names(source, name_servers), f"{source} ip daddr {_set(METADATA)} drop"]
    if options.deny:
        lines.append(f"{source} ip daddr {_set(options.deny)} drop")
    if options.allow:
        lines.append(f"{source} ip daddr {_set(options.allow)} accept")
    return [*lines, f"{source} ip daddr {_set(PRIVATE)} drop", f"{source} meta nfproto ipv6 drop"]


def _store_rules(bridge: str, store: StoreAccess | None, name_servers: Sequence[str] = ()) -> list[str]:
    source = f'iifname "{bridge}"'
    if store is None:
        return []
    if store.addresses:
        return [f"{source} ip daddr {_set(store.addresses)} tcp dport {store.port} accept"]
    return [
        *_names(source, name_servers),
        f"{source} ip daddr {_set([*PRIVATE, *METADATA])} drop",
        f"{source} meta nfproto ipv4 tcp dport {store.port} accept",
    ]


def _names(source: str, name_servers: Sequence[str]) -> list[str]:
    if not name_servers:
        return []
    return [f"{source} ip daddr {_set(name_servers)} meta l4proto {{ tcp, udp }} th dport 53 accept"]


def _set(networks: Sequence[str]) -> str:
    """Overlaps are merged: the kernel refuses a set that has any."""
    merged = collapse_addresses(IPv4Network(text) for text in networks)
    return "{ " + ", ".join(str(network) for network in merged) + " }"


def _indented(lines: Sequence[str]) -> list[str]:
    return [f"    {line}" for line in lines]
