"""Whether a WebSocket's handshake passes whatever stands between this machine and CodeHub's proxy.

It is tried on a workspace of one's own that runs, as a page of another origin would: CodeHub's proxy refuses that by
itself, with a code of its own, so the answer shows that the handshake arrived as one, and nothing is opened.
"""

import base64
import secrets
import socket
import ssl
from contextlib import closing
from urllib.parse import urlsplit

from codehub.cli.connecting import USER_AGENT
from codehub.client import ApiError, Client
from codehub.services.doctor import codes
from codehub.services.doctor.finding import Finding, ok, warning

_SECONDS = 15.0
_MOST_BYTES = 65536
_REFUSED = b"cross_origin"


def websocket(url: str, token: str | None) -> list[Finding]:
    """Nothing when there is no workspace to try it on."""
    if token is None:
        return []
    try:
        with Client(url, token, user_agent=USER_AGENT) as client:
            running = next(iter(client.workspaces(phase="RUNNING")), None)
    except (ApiError, ValueError):
        return []  # told by other checks
    return [] if running is None else [tried(url, f"/w/{running.id}/", token)]


def tried(url: str, path: str, token: str) -> Finding:
    try:
        answer = _handshake(url, path, token)
        own = _other_host(answer, url)
        if own is not None:
            answer = _handshake(own, "/", token)
    except (OSError, ValueError) as error:
        return _lost(f"no answer: {error}")
    if _REFUSED in answer:
        return ok(codes.WEBSOCKET.check, "handshakes reach the proxy")
    first = answer.partition(b"\r\n")[0].decode(errors="replace")
    return _lost(f"it was answered with {first or 'nothing'}")


def _lost(why: str) -> Finding:
    return warning(
        codes.WEBSOCKET,
        f"A WebSocket's handshake does not reach CodeHub's proxy as one; {why}.",
        "Let the proxy in front pass Upgrade and Connection on.",
    )


def _handshake(url: str, path: str, token: str) -> bytes:
    parts = urlsplit(url)
    is_secure = parts.scheme == "https"
    if parts.hostname is None:
        raise ValueError("the address has no host")
    fields = {
        "Host": parts.netloc,
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": base64.b64encode(secrets.token_bytes(16)).decode(),
        "Origin": "https://codehub-doctor.invalid",
        "Authorization": f"Bearer {token}",
        "User-Agent": USER_AGENT,
    }
    lines = [f"GET {path} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items()), "", ""]
    # Browsers know that everything below localhost is this machine; not every resolver does.
    host = "localhost" if parts.hostname.endswith(".localhost") else parts.hostname
    address = (host, parts.port or (443 if is_secure else 80))
    with (
        closing(socket.create_connection(address, timeout=_SECONDS)) as plain,
        closing(_secured(plain, parts.hostname) if is_secure else plain) as line,
    ):
        line.sendall("\r\n".join(lines).encode())
        return _read(line)


def _secured(plain: socket.socket, name: str) -> socket.socket:
    return ssl.create_default_context().wrap_socket(plain, server_hostname=name)


def _read(line: socket.socket) -> bytes:
    """The head, and of the body what comes within a moment."""
    answer = b""
    try:
        while len(answer) < _MOST_BYTES and (part := line.recv(4096)):
            answer += part
            if b"\r\n\r\n" in answer:
                line.settimeout(1.0)
            if _REFUSED in answer:
                break
    except TimeoutError:
        if not answer:
            raise
    return answer


def _other_host(answer: bytes, url: str) -> str | None:
    """Where it is sent to, if that is the workspace's own origin."""
    for line in answer.partition(b"\r\n\r\n")[0].split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.lower() == b"location":
            to = urlsplit(value.strip().decode(errors="replace"))
            if to.netloc and to.netloc != urlsplit(url).netloc:
                return f"{to.scheme}://{to.netloc}"
    return None
