"""A request as the gate sees it: where it was sent, by whom, over what; behind trusted proxies what these say."""

from codehub.web import forwarded
from codehub.web.proxy.heads import Fields, RequestHead, is_host
from codehub.web.proxy.ports import Request

UNKNOWN = "unknown"  # as proxies write it who do not say


def request_of(
    head: RequestHead, address: str, here: bytes, *, is_tls: bool, trusted: forwarded.Networks | None
) -> Request:
    """`here` is where it connected to, for a client that does not say. `trusted` is None for an ordinary client."""
    fields = head.fields
    host = here if fields.host is None else fields.host
    is_secure = is_tls
    if trusted is not None:
        address, host, is_secure = _said(fields, address, host, trusted, is_secure=is_tls)
    elif fields.has_claims and forwarded.is_here(address):
        address = UNKNOWN  # who is here speaks for nobody else
    is_upgrade = fields.upgrade == b"websocket" and _asks_for_websocket(head)
    return Request(
        head.method, head.target, fields.pairs, host, address, is_secure, is_upgrade, is_from_proxy=trusted is not None
    )


def _said(
    fields: Fields, address: str, host: bytes, trusted: forwarded.Networks, *, is_secure: bool
) -> tuple[str, bytes, bool]:
    """By a trusted proxy."""
    said = {name: value.decode("latin-1") for name, value in fields.pairs}
    address = forwarded.client_of(address, fields.pairs, trusted) or UNKNOWN
    named = forwarded.last(said.get(b"x-forwarded-host")).lower().encode("latin-1")
    host = named if is_host(named) else host
    scheme = forwarded.last(said.get(b"x-forwarded-proto")).lower()
    return address, host, scheme == "https" if scheme else is_secure


def _asks_for_websocket(head: RequestHead) -> bool:
    fields = head.fields
    has_body = fields.is_chunked or bool(fields.length)
    return head.method == b"GET" and head.minor == 1 and b"upgrade" in fields.connection and not has_body
