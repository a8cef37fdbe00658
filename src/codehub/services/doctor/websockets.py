"""Whether a WebSocket's handshake passes whatever stands between here and CodeHub's proxy.

It is tried as a page of another origin would: CodeHub's proxy refuses that by itself, whatever it is about, with a code
of its own. So the answer shows that the handshake arrived as one, nobody has to log in, and nothing is opened.
"""

import base64
import secrets
import socket
import ssl
from collections.abc import Mapping, Sequence
from contextlib import closing
from urllib.parse import urlsplit

from codehub.services.doctor import codes
from codehub.services.doctor.finding import Finding, ok, warning

SECONDS = 15.0
USER_AGENT = "codehub-doctor"
_MOST_BYTES = 65536
_REFUSED = b"cross_origin"
_HEALTH = "/healthz"


def tried(origins: Sequence[str], *, seconds: float = SECONDS) -> Finding:
    """At each of these, CodeHub's own and workspaces'."""
    for origin in origins:
        try:
            answer = ask(origin, _HEALTH, _handshake(), seconds=seconds)
        except (OSError, ValueError) as error:
            return _lost(origin, f"no answer: {error}")
        if _REFUSED not in answer:
            first = answer.partition(b"\r\n")[0].decode(errors="replace")
            return _lost(origin, f"it was answered with {first or 'nothing'}")
    return ok(codes.WEBSOCKET.check, "handshakes reach the proxy")


def _lost(origin: str, why: str) -> Finding:
    return warning(
        codes.WEBSOCKET,
        f"A WebSocket's handshake at {origin} does not reach CodeHub's proxy as one; {why}.",
        "Let the proxy in front pass Upgrade and Connection on.",
    )


def _handshake() -> dict[str, str]:
    return {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": base64.b64encode(secrets.token_bytes(16)).decode(),
        "Origin": "https://codehub-doctor.invalid",
    }


def ask(origin: str, path: str, fields: Mapping[str, str], *, seconds: float = SECONDS) -> bytes:
    """The head of the answer to one GET, and of its body what comes within a moment. Raises OSError, ValueError."""
    parts = urlsplit(origin)
    is_secure = parts.scheme == "https"
    if parts.hostname is None:
        raise ValueError("the address has no host")
    sent = {"Host": parts.netloc, "User-Agent": USER_AGENT, **fields}
    lines = [f"GET {path} HTTP/1.1", *(f"{name}: {value}" for name, value in sent.items()), "", ""]
    # Browsers know that everything below localhost is this machine; not every resolver does.
    host = "localhost" if parts.hostname.endswith(".localhost") else parts.hostname
    address = (host, parts.port or (443 if is_secure else 80))
    with (
        closing(socket.create_connection(address, timeout=seconds)) as plain,
        closing(_secured(plain, parts.hostname) if is_secure else plain) as line,
    ):
        line.sendall("\r\n".join(lines).encode())
        return _read(line)


def _secured(plain: socket.socket, name: str) -> socket.socket:
    return ssl.create_default_context().wrap_socket(plain, server_hostname=name)


def _read(line: socket.socket) -> bytes:
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
