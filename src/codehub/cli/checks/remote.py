"""A server that runs: whether it answers, what it says about itself, its clock, and whether we may use it."""

from datetime import UTC, datetime

import httpx

from codehub import __version__
from codehub.cli.connecting import USER_AGENT
from codehub.cli.isolation import advice_for
from codehub.client import ApiError, Client
from codehub.services.doctor import codes
from codehub.services.doctor.finding import Finding, failed, ok, warning
from codehub.services.doctor.standing import skew

SERVER, LOGIN = "server", "login"


def server(url: str, *, is_here: bool = False) -> list[Finding]:
    """Everything but who we are. `is_here`: at this machine's own address, which its certificate need not name."""
    transport = httpx.HTTPTransport(verify=False) if is_here else None  # nothing secret is sent
    try:
        with Client(url, user_agent=USER_AGENT, transport=transport) as client:
            told, date = client.readiness()
    except ApiError as error:
        return [failed(codes.SERVER, error.message, "Start it, or correct the address.")]
    found = [_version(url, str(told["version"])) if "version" in told else _without_details(url, str(told["status"]))]
    if date is not None:
        found.append(skew(date, datetime.now(UTC), "the server"))
    for name, state in told["dependencies"].items():
        detail = str(state.get("detail", ""))
        if state.get("state") != "up":
            found.append(failed(codes.DEPENDENCY, detail or "It does not answer.", check=name))
        else:
            found.append(
                warning(codes.WEAK, detail, " ".join(advice_for(detail)), check=name) if detail else ok(name, "up")
            )
    return found


def _version(url: str, theirs: str) -> Finding:
    if theirs == __version__:
        return ok(SERVER, f"{url} runs CodeHub {theirs}")
    return warning(codes.VERSION, f"{url} runs CodeHub {theirs}, and this is {__version__}.", "Use the same version.")


def _without_details(url: str, status: str) -> Finding:
    """It tells its details to some networks only, and this machine is in none of them."""
    if status == "ready":
        return ok(SERVER, f"{url} is ready")
    if status == "degraded":
        advice = "Ask on its own machine what is out, or see CODEHUB_HEALTH_NETWORKS there."
        return warning(codes.WEAK, f"{url} is ready, and something that it needs is out.", advice)
    return failed(codes.SERVER, f"{url} is {status}.", "Ask on its own machine, or see CODEHUB_HEALTH_NETWORKS there.")


def login(url: str, token: str | None) -> Finding:
    if token is None:
        return warning(codes.LOGIN, f"You are not logged in to {url}.", f"codehub login {url}")
    try:
        with Client(url, token, user_agent=USER_AGENT) as client:
            session = client.session()
    except (ApiError, ValueError) as error:
        return failed(codes.LOGIN, str(error), f"codehub login {url}")
    return ok(LOGIN, f"{session.user.username}, {session.user.role}, may {session.scope}")
