"""What is weak about the isolation of workspaces, and what to do about it: one line for each weakness.

Drivers describe their isolation in full (`/readyz`, `codehub doctor`); a start prints only what somebody should change.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from codehub.web.health import DependencyState

_WARNING = "WARNING: "


@dataclass(frozen=True, slots=True)
class _Weakness:
    """`sign` is a part of what a driver says; `means` is what that means, `advice` what to do about it."""

    sign: str
    means: str
    advice: str


_NO_SANDBOX = "Workspaces run without a sandbox: they can see this machine's files and reach its servers."
_CALLS = "Workspaces can make every system call of this machine's kernel."
_LIMITS = "Workspaces can use all processors and memory of this machine."

# The first that fits counts.
_WEAKNESSES = (
    _Weakness("not filtered, because it is switched off", _CALLS, "Remove PROCESS_SECCOMP=off."),
    _Weakness("system calls of workspaces are not filtered", _CALLS, "Use a kernel that has seccomp filters."),
    _Weakness(
        "(bwrap) is not installed",
        _NO_SANDBOX,
        "Install bubblewrap (Debian, Ubuntu: apt install bubblewrap), then start CodeHub again.",
    ),
    _Weakness(
        "it was tried and failed",
        _NO_SANDBOX,
        (
            "Let programs make user namespaces (sysctl kernel.unprivileged_userns_clone=1; on Ubuntu "
            "kernel.apparmor_restrict_unprivileged_userns=0), or run CodeHub as root."
        ),
    ),
    _Weakness("it is switched off", _NO_SANDBOX, "Remove PROCESS_SANDBOX=off."),
    _Weakness(
        "share this machine's network (setting)",
        "Workspaces share this machine's network and reach every server on it.",
        "Remove PROCESS_NETWORK=host.",
    ),
    _Weakness(
        "run as your own user",
        "Workspaces run as your own user: any of them can read and change all your files.",
        "Run CodeHub as root, which gives each workspace a user id of its own.",
    ),
    _Weakness("there is no cgroup v2 to use", _LIMITS, "Run CodeHub as root on a machine with cgroup v2."),
    _Weakness("cgroup v2 limits only", _LIMITS, "Let the machine's cgroup v2 tree hand down memory, pids and cpu."),
    _Weakness(
        "Workspaces are NOT isolated",
        "Containers are not isolated from each other's networks.",
        "See that the engine has the image DOCKER_GUARD_IMAGE and can run nft; until then nobody else's code is safe.",
    ),
)


def warnings(isolation: Mapping[str, Sequence[str]], states: Mapping[str, DependencyState]) -> Iterator[str]:
    """Lines to print: backends that do not work, and what is weak about those that do."""
    for name, lines in isolation.items():
        state = states.get(name)
        if state is not None and not state.up:
            yield f"The backend {name} does not work yet: {state.detail} It is tried again until it works."
            continue
        yield from _of(lines)


def _of(lines: Sequence[str]) -> Iterator[str]:
    """A line that goes on about the one before it ("they …") is part of it, unless something else is to be done."""
    told: set[str] = set()
    for line in lines:
        if not line.startswith(_WARNING):
            continue
        text = line.removeprefix(_WARNING)
        found = _weakness(text)
        if found is not None and found.sign not in told:
            told.add(found.sign)
            yield f"{found.means} {found.advice}"
        elif found is None and not (told and text.startswith("they ")):
            yield f"{text[:1].upper()}{text[1:]}"


def advice_for(line: str) -> list[str]:
    """What to do about one thing that a driver said; nothing where all is well."""
    found = _weakness(line)
    return [] if found is None else [found.advice]


def _weakness(line: str) -> _Weakness | None:
    return next((each for each in _WEAKNESSES if each.sign in line), None)
