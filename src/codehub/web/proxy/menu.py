"""CodeHub's menu in an IDE: a script that is added to the end of the pages that people open there (ADR 26). Pure.

Only to a page that a person goes to in a tab, as the browser says (Sec-Fetch-Dest), and only to HTML that comes whole
and plain. Nothing of the page is read or changed: after its last byte comes one element, and parsers take that into
the page. What was added to is not to be stored, so that no script is ever given it for the file that it asks for.
"""

from codehub.web.proxy.heads import ResponseHead
from codehub.web.proxy.ports import Request, Route

SCRIPT = b"/.codehub/menu.js"
# A page in another coding cannot be added to, nor one that the browser has already, nor a part of one.
NOT_ASKED = frozenset(b"accept-encoding if-none-match if-modified-since if-range range".split())
# Said of the page as it was; and whoever signed it, or forbids it to be touched, is obeyed.
_NO_LONGER_TRUE = frozenset(b"cache-control expires etag last-modified accept-ranges".split())
_SIGNED = frozenset(b"content-encoding content-range content-digest repr-digest digest content-md5".split())
_WIDE = (b"utf-16", b"utf-32")
_NOT_STORED = b"cache-control: no-store\r\n"


def tail_at(strip: bytes) -> bytes:
    """What is added to pages of a workspace that is seen below `strip`."""
    return b'<script src="%b%b" data-at="%b" defer></script>\n' % (strip, SCRIPT, strip)


def tail_of(head: ResponseHead, request: Request, route: Route) -> bytes:
    """What to add to this answer to somebody who opens a page; mostly nothing."""
    if not route.tail or head.status != 200 or request.method != b"GET" or head.fields.length == 0:
        return b""
    kind = b""
    for name, value in head.fields.pairs:
        if name == b"content-type":
            kind = value.lower()
        elif _forbids(name, value.lower()):
            return b""
    is_html = kind.partition(b";")[0].strip() == b"text/html"
    return route.tail if is_html and not any(each in kind for each in _WIDE) else b""


def _forbids(name: bytes, value: bytes) -> bool:
    """A field of a page that must stay as it is."""
    if name == b"content-disposition":
        return not value.startswith(b"inline")
    if name == b"cache-control":
        return b"no-transform" in value
    if name == b"content-security-policy":  # in a sandbox a page has no origin, and the menu no cookie
        return any(each.split()[:1] == [b"sandbox"] for each in value.replace(b",", b";").split(b";"))
    return name in _SIGNED and value != b"identity"


def without_validators(fields: bytes) -> bytes:
    """The fields of an answer that is added to."""
    lines = [line for line in fields.split(b"\r\n") if line and line.partition(b":")[0] not in _NO_LONGER_TRUE]
    return b"".join(b"%b\r\n" % line for line in lines) + _NOT_STORED
