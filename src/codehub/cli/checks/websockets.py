"""Whether WebSockets reach the proxy of a server elsewhere: at its own address and at that of a workspace that runs."""

from urllib.parse import urlsplit

from codehub.client import ApiError, Client
from codehub.services.doctor.finding import Finding
from codehub.services.doctor.websockets import USER_AGENT, ask, tried


def websocket(url: str, token: str | None) -> Finding:
    own = None if token is None else _own_origin(url, token)
    return tried([url] if own is None else [url, own])


def _own_origin(url: str, token: str) -> str | None:
    """Where a workspace of one's own that runs is found, if that is another host. Other checks tell of troubles."""
    try:
        with Client(url, token, user_agent=USER_AGENT) as client:
            running = next(iter(client.workspaces(phase="RUNNING")), None)
        if running is None:
            return None
        answer = ask(url, f"/w/{running.id}/", {"Authorization": f"Bearer {token}", "Connection": "close"})
    except (ApiError, OSError, ValueError):
        return None
    for line in answer.partition(b"\r\n\r\n")[0].split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.lower() == b"location":
            to = urlsplit(value.strip().decode(errors="replace"))
            if to.netloc and to.netloc != urlsplit(url).netloc:
                return f"{to.scheme}://{to.netloc}"
    return None
