"""Where a browser may be sent after a login: a path of ours, never another site (CVE-2026-33709 was somebody's).

Browsers read `//host` and `/\\host` as another host and leave out tabs and line ends, and what stands between them and
us may decode a path once or twice more.
"""

import re
from urllib.parse import unquote, urlsplit

_LONGEST = 2000
_UNUSUAL = re.compile(r"[\x00-\x1f\x7f-\x9f\\]")


def local_path(wanted: str | None) -> str:
    """`wanted` if it is a path of ours for certain, else the first page."""
    text = wanted or ""
    if len(text) > _LONGEST or not text.isascii() or " " in text:
        return "/"
    seen = text
    for _ in range(4):
        if _UNUSUAL.search(seen) or not seen.startswith("/") or seen.startswith("//"):
            return "/"
        decoded = unquote(seen.partition("?")[0].partition("#")[0])
        if decoded == seen:
            break
        seen = decoded
    else:
        return "/"
    try:
        parts = urlsplit(text)
    except ValueError:
        return "/"
    return "/" if parts.scheme or parts.netloc else text


def has_dots(path: str) -> bool:
    """Whether a browser would look for it elsewhere than where it begins, however the dots are written."""
    return any(unquote(part) in (".", "..") for part in path.partition("?")[0].partition("#")[0].split("/"))
