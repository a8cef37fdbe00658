"""How isolated workspaces are, in plain words, with what to do about each weakness; shown when CodeHub starts."""

from collections.abc import Iterator, Mapping, Sequence

from codehub.web.health import DependencyState

_TITLES = {
    "process": "Workspaces are processes of this machine.",
    "docker": "Workspaces are containers.",
    "browser": "In the browser:",
    "k8s": "Workspaces are pods.",
}

# What a driver says (in part), and what a person can do about it.
_ADVICE = (
    (
        "(bwrap) is not installed",
        "Install bubblewrap (Debian, Ubuntu: apt install bubblewrap), then start CodeHub again.",
    ),
    (
        "it was tried and failed",
        (
            "Let programs make user namespaces (sysctl kernel.unprivileged_userns_clone=1; on Ubuntu "
            "kernel.apparmor_restrict_unprivileged_userns=0), or run CodeHub as root."
        ),
    ),
    ("it is switched off", "Remove PROCESS_SANDBOX=off."),
    ("share this machine's network (setting)", "Remove PROCESS_NETWORK=host."),
    ("run as your own user", "Run CodeHub as root, which gives each workspace a user id of its own."),
    ("there is no cgroup v2 to use", "Run CodeHub as root on a machine with cgroup v2."),
    ("cgroup v2 limits only", "Let the machine's cgroup v2 tree hand down memory, pids and cpu."),
    (
        "Workspaces are NOT isolated",
        "See that the engine has the image DOCKER_GUARD_IMAGE and can run nft; until then nobody else's code is safe.",
    ),
)


def described(isolation: Mapping[str, Sequence[str]], states: Mapping[str, DependencyState]) -> Iterator[str]:
    """Lines to print: each backend, what holds, what does not, and what to do about that."""
    for name, lines in isolation.items():
        state = states.get(name)
        yield _TITLES.get(name, f"Workspaces of the backend {name}:")
        if state is not None and not state.up:
            yield f"  WARNING: {name} does not work yet: {state.detail}"
            yield "    → None can start meanwhile; it is tried again until it works."
            continue
        for line in lines:
            yield f"  {line}"
            yield from (f"    → {what}" for what in advice_for(line))


def advice_for(line: str) -> list[str]:
    """What to do about one thing that a driver said; nothing where all is well."""
    return [what for sign, what in _ADVICE if sign in line]
