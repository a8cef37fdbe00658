"""Names of header fields that must not simply be passed on, and why; in lower case."""


def _both_spellings(names: bytes) -> frozenset[bytes]:
    """CGI and WSGI programs take `content_length` for Content-Length."""
    return frozenset(names.split()) | frozenset(names.replace(b"-", b"_").split())


# Of one connection (RFC 9110, 7.6.1), and what is said of a body's length.
HOP = _both_spellings(
    b"connection keep-alive proxy-connection proxy-authenticate proxy-authorization te transfer-encoding upgrade "
    b"http2-settings"
)
WRITTEN_ANEW = _both_spellings(b"host content-length")
# What a Connection field commonly names, all of it in HOP or no field at all.
USUAL_OPTIONS = frozenset(b"close keep-alive upgrade te http2-settings".split())
_CLAIMS = frozenset(b"forwarded x-real-ip".split())
_CLAIM_PREFIXES = (b"x-forwarded-", b"x-codehub-")
CREDENTIALS = frozenset(b"authorization cookie".split())
WEBSOCKET = b"sec-websocket-"
# Of the connection, or of more than the workspace: its registrable domain, other ports, everything that is stored.
NOT_A_WORKSPACES = frozenset(
    b"alt-svc clear-site-data nel report-to strict-transport-security set-login public-key-pins".split()
)
NOT_ON_A_SHARED_ORIGIN = NOT_A_WORKSPACES | frozenset(
    b"service-worker-allowed origin-agent-cluster accept-ch critical-ch reporting-endpoints speculation-rules".split()
)
REQUEST_ID = b"x-request-id"  # goes to the API from trusted proxies only: it stands in the log
LOGIN = b"x-codehub-login"  # the API's word to the proxy: whoever asked is logged in (places.py)
POLICY = b"content-security-policy"
REPORTED_POLICY = POLICY + b"-report-only"
_REWRITTEN = frozenset((b"set-cookie", b"location", POLICY, REPORTED_POLICY))
_THOUGHT_ABOUT = HOP | WRITTEN_ANEW | CREDENTIALS | NOT_ON_A_SHARED_ORIGIN | _REWRITTEN | {REQUEST_ID}
# Fields that say where a message goes, how long it is, who sent it: never after the fact.
_NO_TRAILERS = _THOUGHT_ABOUT | frozenset(
    b"trailer content-type content-encoding content-range cache-control expect range vary www-authenticate".split()
)


def is_claim(name: bytes) -> bool:
    """Whether it says where a request came from, as only a proxy may."""
    if b"_" in name:  # some servers take both for the same
        name = name.replace(b"_", b"-")
    return name in _CLAIMS or name.startswith(_CLAIM_PREFIXES)


def is_plain(name: bytes) -> bool:
    """Whether it is passed on as it is, whoever sent it to whom."""
    return name not in _THOUGHT_ABOUT and not name.startswith(WEBSOCKET) and not is_claim(name)


def is_trailer(name: bytes) -> bool:
    """Whether it may come after a body."""
    return name not in _NO_TRAILERS and not is_claim(name)
