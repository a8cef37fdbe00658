"""`codehub doctor --security`: the threat model's promises, and which of them hold for this installation's backends."""

from collections.abc import Mapping, Sequence

import httpx

from codehub.cli.connecting import USER_AGENT
from codehub.cli.isolation import advice_for
from codehub.client import ApiError, Client
from codehub.model.workspace import InstanceBackend
from codehub.services.doctor import codes
from codehub.services.doctor.finding import Finding, failed, ok, warning
from codehub.services.doctor.promises import FOLDERS, judged

_WARNING = "WARNING: "


def of_server(url: str, *, is_here: bool = False) -> list[Finding]:
    """By what a server that runs says about its backends."""
    transport = httpx.HTTPTransport(verify=False) if is_here else None  # nothing secret is sent
    try:
        with Client(url, user_agent=USER_AGENT, transport=transport) as client:
            told, _ = client.readiness()
    except ApiError as error:
        return [failed(codes.SERVER, error.message, "Start it, or correct the address.")]
    isolation = told.get("isolation")
    if not isinstance(isolation, dict):
        return [warning(codes.ISOLATION, f"{url} does not tell this machine.", "Ask on its own machine.")]
    backends = [each for each in InstanceBackend if each in isolation]
    return [finding for each in backends for finding in of_backend(each, isolation)]


def of_backend(backend: InstanceBackend, isolation: Mapping[str, Sequence[str]]) -> list[Finding]:
    """A line for each promise."""
    lines = isolation.get(backend)
    if not lines:  # a backend that is out says nothing
        return [
            warning(
                codes.ISOLATION, "What holds is known while CodeHub runs.", "Start it, then ask again.", check=backend
            )
        ]
    found = []
    for promise, broken in judged(backend, lines):
        test = f"{FOLDERS[backend]}{promise.test}"
        if broken is None:
            found.append(ok(backend, f"{promise.text}: {promise.kept_by} ({test})"))
        else:
            why = f"Does not hold here: {promise.text}. {broken.removeprefix(_WARNING)}"
            found.append(warning(codes.ISOLATION, why, " ".join(advice_for(broken)), check=backend))
    return found
