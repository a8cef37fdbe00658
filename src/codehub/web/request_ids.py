"""Every request has an id, which its answer, its log lines and its trace carry.

A trusted proxy's `X-Request-ID` is taken over, anybody else's is not: whoever can choose ids can make the log lie. Our
own proxy, which comes over a unix socket, passes on those of the proxies that it trusts.
"""

import re
import secrets

from starlette.requests import HTTPConnection
from starlette.types import Scope

from codehub.web.forwarded import Networks, is_our_proxy, is_trusted

HEADER = "x-request-id"
_KEY = "codehub.request_id"
_FORM = re.compile(r"[A-Za-z0-9._-]{8,128}")


def assign(scope: Scope, trusted: Networks) -> str:
    """Draw this request's id, or take over what a trusted proxy says; others find it in the scope."""
    found = (_given(scope) if _is_believed(scope, trusted) else None) or secrets.token_hex(16)
    scope[_KEY] = found
    return found


def of(scope: Scope) -> str | None:
    found = scope.get(_KEY)
    return None if found is None else str(found)


def _given(scope: Scope) -> str | None:
    text = HTTPConnection(scope).headers.get(HEADER, "")
    return text if _FORM.fullmatch(text) else None


def _is_believed(scope: Scope, trusted: Networks) -> bool:
    client = scope.get("client")
    return is_our_proxy(scope) or (client is not None and is_trusted(client[0], trusted))
