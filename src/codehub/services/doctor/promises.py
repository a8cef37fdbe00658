"""The threat model: what each backend promises, what keeps it, which test holds it, and whether it holds here.

The one source of the tables in docs/security.md (tests/docs/test_security.py) and of `codehub doctor --security`. What
holds here is told by the driver's own sentences (`isolation`): those that contain its `broken_by` break a promise.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from codehub.model.workspace import InstanceBackend

_NO_SANDBOX, _HOST_NETWORK = "run without a sandbox", "share this machine's network"
_OWN_USER, _NO_FILTER = "run as your own user", "system calls of workspaces are not filtered"
_OWN_KEYS, _NO_RESERVE = "reach the keys of your own user", "no reserve of the disk is kept free"
_OWN_OOM_SCORE = "undo that memory which runs out ends them first"
_NO_LIMITS = "total memory are not all limited"
_OPEN_DOCKER, _NO_SIZE = "NOT isolated", "The disk space of a home is not limited."
_OPEN_K8S = ("does not enforce network policies", "could not be found out", "is not known yet")


@dataclass(frozen=True, slots=True)
class Promise:
    """`test` is below tests/, in the folder of its backend; `decision` is a page of docs/adr."""

    text: str
    kept_by: str
    test: str
    broken_by: tuple[str, ...] = ()
    decision: str = ""


FOLDERS: Mapping[InstanceBackend, str] = {
    InstanceBackend.PROCESS: "tests/drivers_process/",
    InstanceBackend.DOCKER: "tests/drivers_docker/",
    InstanceBackend.K8S: "tests/drivers_kubernetes/",
}

PROMISES: Mapping[InstanceBackend, Sequence[Promise]] = {
    InstanceBackend.PROCESS: (
        Promise(
            "no file of the machine but its programs, nor of another workspace",
            "mount namespace, read-only root",
            "test_escapes.py::test_everything_but_its_own_is_mounted_read_only",
            (_NO_SANDBOX,),
        ),
        Promise(
            "no process of the machine, nor of another workspace",
            "pid namespace",
            "test_escapes.py::test_processes_of_the_machine_cannot_be_killed",
            (_NO_SANDBOX,),
        ),
        Promise(
            "no server of the machine, no other workspace, no metadata address",
            "network namespace, egress proxy",
            "test_escapes.py::test_servers_of_the_machine_are_not_reached",
            (_NO_SANDBOX, _HOST_NETWORK),
        ),
        Promise(
            "no right over the machine",
            "uid 1000 without capabilities, no-new-privileges, no further user namespaces",
            "test_escapes.py::test_it_has_no_capabilities_and_gets_none",
            (_NO_SANDBOX, _OWN_USER),
        ),
        Promise(
            "no key of whoever started CodeHub, and no channel by keyrings",
            "a session keyring for each start",
            "test_keyrings.py::test_a_workspace_has_neither_our_keys_nor_another_ones",
            (_OWN_KEYS,),
        ),
        Promise(
            "few of the kernel's calls, no socket but the usual ones",
            "seccomp",
            "test_seccomp.py::test_the_kernel_refuses_them",
            (_NO_FILTER,),
            "0020-system-calls",
        ),
        Promise(
            "the same for the way out",
            "seccomp",
            "test_seccomp.py::test_the_way_out_has_it_too_each_time_it_is_made",
            (_NO_FILTER,),
        ),
        Promise(
            "no more processors, memory and processes than its limits",
            "cgroup v2",
            "test_escapes.py::test_memory_is_limited",
            (_NO_LIMITS,),
        ),
        Promise(
            "no memory beside its limit by files",
            "`/dev` read-only; `/dev/shm` and `/tmp` have sizes",
            "test_escapes.py::test_shared_memory_has_a_size",
            (_NO_SANDBOX,),
        ),
        Promise(
            "memory that runs out ends it before CodeHub",
            "`oom_score_adj` 500",
            "test_escapes.py::test_it_is_killed_before_codehub_when_memory_runs_out",
            (_OWN_OOM_SCORE,),
        ),
        Promise(
            "the database does not meet a full disk",
            "a reserve, below which nothing is started and who takes it is stopped",
            "test_full_disk.py::test_the_database_never_meets_a_full_disk",
            (_NO_RESERVE,),
            decision="0021-disk-reserve",
        ),
        Promise(
            "its log is kept to 2 MiB, and what was said is not taken back",
            "its output is a pipe; a process outside of the sandbox keeps the file",
            "test_logs.py::test_it_cannot_be_truncated_or_forged",
            (_OWN_USER,),
        ),
        Promise(
            "nothing of it outlives its stop",
            "pid namespace, cgroup",
            "test_adoption.py::test_removal_takes_daemons_that_left_their_session",
            (_OWN_USER,),
        ),
    ),
    InstanceBackend.DOCKER: (
        Promise(
            "no file of the machine, nor of another workspace; no capability",
            "a container with a volume of its own, uid 1000",
            "test_spec.py::test_golden",
        ),
        Promise(
            "no other workspace",
            "a firewall, verified in the kernel",
            "test_isolation.py::test_workspaces_do_not_reach_each_other",
            (_OPEN_DOCKER,),
        ),
        Promise(
            "no server of the machine",
            "the same",
            "test_isolation.py::test_no_service_of_this_machine_is_reached",
            (_OPEN_DOCKER,),
        ),
        Promise(
            "not the engine",
            "the same; no socket inside",
            "test_isolation.py::test_the_engine_is_not_reached",
            (_OPEN_DOCKER,),
        ),
        Promise(
            "no metadata address, whatever settings allow",
            "the same",
            "test_metadata.py::test_no_workspace_reaches_them_even_where_settings_allow_all_around",
            (_OPEN_DOCKER,),
        ),
        Promise(
            "a storage job reaches the archive store and nothing else",
            "a network of its own",
            "test_isolation.py::test_jobs_reach_the_store_and_nothing_else",
            (_OPEN_DOCKER,),
        ),
        Promise(
            "no more processors, memory and processes than its limits",
            "the container's limits, unless `WORKSPACE_CPUS`, `_MEMORY` or `_PIDS` is 0",
            "test_spec.py::test_golden",
        ),
        Promise(
            "few of the kernel's calls",
            "the engine's default seccomp profile, which no container of ours takes away",
            "test_spec.py::test_golden",
        ),
        Promise(
            "no more disk than a size of its own",
            "nothing: volumes have no size; give the engine a disk of its own",
            "test_isolation.py::test_it_says_what_is_in_force",
            (_NO_SIZE,),
        ),
    ),
    InstanceBackend.K8S: (
        Promise(
            "no file of the node, nor of another workspace; no capability, no service-account token",
            "a pod with a claim of its own, uid 1000",
            "test_manifests.py::test_exactly_this_is_asked_for",
        ),
        Promise(
            "no other workspace, not the control plane, not the API server",
            "network policies, tried by probes",
            "test_isolation.py::test_a_network_that_blocks_what_it_should_is_believed",
            _OPEN_K8S,
        ),
        Promise(
            "nobody but CodeHub dials a workspace",
            "network policies",
            "test_policies.py::test_only_pods_of_our_own_namespace_dial_workspaces",
            _OPEN_K8S,
        ),
        Promise(
            "no metadata address, whatever settings allow",
            "network policies",
            "test_manifests.py::test_metadata_is_never_allowed",
            _OPEN_K8S,
        ),
        Promise(
            "no more processors and memory than its limits",
            "the container's limits, unless `WORKSPACE_CPUS` or `_MEMORY` is 0 (processes: `podPidsLimit`)",
            "test_manifests.py::test_exactly_this_is_asked_for",
        ),
        Promise(
            "few of the kernel's calls",
            "the seccomp profile `RuntimeDefault`",
            "test_manifests.py::test_exactly_this_is_asked_for",
        ),
        Promise(
            "no more disk than its claim",
            "the claim's size, where the storage class enforces it",
            "test_manifests.py::test_exactly_this_is_asked_for",
        ),
    ),
}


def judged(backend: InstanceBackend, isolation: Sequence[str]) -> Iterator[tuple[Promise, str | None]]:
    """Each promise, and the sentence of the driver that says why it does not hold here; None where it does."""
    for promise in PROMISES[backend]:
        yield promise, next((line for line in isolation if any(sign in line for sign in promise.broken_by)), None)


def table(backend: InstanceBackend) -> str:
    """As docs/security.md has it."""
    rows = ["| promise | kept by | test |", "|---|---|---|"]
    for each in PROMISES[backend]:
        number = each.decision[:4].lstrip("0")
        link = f" ([ADR {number}](adr/{each.decision}.md))" if each.decision else ""
        rows.append(f"| {each.text} | {each.kept_by}{link} | `{each.test}` |")
    return "\n".join(rows) + "\n"
