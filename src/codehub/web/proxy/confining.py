"""What a workspace's pages may do in path mode, where they are of CodeHub's own origin (ADR 22). Pure.

They may load, connect, send forms and open frames below their own path only, and open no windows: a page without a
window or a frame of another part of this origin, and without a connection to it, acts there as nobody. A browser does
not look at the path where a redirect led, so redirects are confined as well, and it sends reports of a policy wherever
that policy says, with its cookies, so none is asked for. A service worker could answer with pages that have no policy,
so none is served. IDEs need scripts and an origin, and get them.
"""

import re
from collections.abc import Iterable
from urllib.parse import unquote_to_bytes

from codehub.web.crossing import is_report
from codehub.web.proxy.ports import Request

_SCHEME = re.compile(rb"([a-z][a-z0-9+.-]*):(.*)", re.IGNORECASE | re.DOTALL)
_AUTHORITY = re.compile(rb"//+([^/?#]*)(.*)", re.DOTALL)
# A name that browsers read in one way: no address in another spelling, nothing encoded, no login, no odd port.
_LABEL = rb"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?"
_PLAIN_NAME = re.compile(rb"((?:%b\.)*[a-z](?:[a-z0-9-]*[a-z0-9])?)(?::[1-9][0-9]{0,4})?" % _LABEL, re.IGNORECASE)
_SANDBOX = b"allow-downloads allow-forms allow-modals allow-same-origin allow-scripts"
# Where IDEs look for extensions, and show what these bring (code-server, VS Code).
_OUTSIDE = b"https://open-vsx.org https://*.open-vsx.org https://openvsxorg.blob.core.windows.net"
_FRAMES = b"https://*.vscode-cdn.net"


SERVICE_WORKER = b"service-worker"  # the field by which a browser asks for the script of one
_REPORTS = ([b"report-uri"], [b"report-to"])


def policy_of(host: bytes, strip: bytes) -> bytes:
    """The field to add to each answer of a workspace that is seen below `strip` of this host."""
    here = b"%b%b/" % (host, strip)
    rules = (
        b"sandbox " + _SANDBOX,
        b"default-src %b data: blob:" % here,
        b"script-src %b blob: 'unsafe-inline' 'unsafe-eval'" % here,
        b"style-src %b blob: 'unsafe-inline'" % here,
        b"img-src %b %b data: blob:" % (here, _OUTSIDE),
        b"connect-src %b ws://%b wss://%b %b data: blob:" % (here, here, here, _OUTSIDE),
        b"form-action " + here,
        b"frame-src %b %b data: blob:" % (here, _FRAMES),
        b"worker-src blob:",
        b"object-src 'none'",
    )
    return b"content-security-policy: %b\r\n" % b"; ".join(rules)


def is_service_worker(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Whether a browser asks for the script of one. A page cannot send, or leave out, these fields."""
    return any(
        name == SERVICE_WORKER or (name == b"sec-fetch-dest" and value.strip().lower() == b"serviceworker")
        for name, value in headers
    )


def is_report_of(request: Request) -> bool:
    """Whether a browser reports: to another workspace of this origin it would be a request like its pages' own."""
    if request.method != b"POST":
        return False
    found = dict(request.headers)
    dest, content_type = found.get(b"sec-fetch-dest", b""), found.get(b"content-type", b"")
    return is_report(dest.decode("latin-1"), content_type.decode("latin-1"))


def without_reports(policies: bytes) -> bytes:
    """A workspace's own Content-Security-Policy, as strict as it is, but telling nobody."""
    return b",".join([
        b";".join([rule for rule in policy.split(b";") if rule.lower().split()[:1] not in _REPORTS])
        for policy in policies.split(b",")
    ])  # fmt: skip


def confined_redirect(location: bytes, target: bytes, host: bytes, strip: bytes, *, is_guarded: bool) -> bytes:
    """A Location as browsers read it: below the prefix if it stays on this host, else as it was.

    `target` is the path that was asked for, with the prefix. Where pages are guarded, what is not surely another host
    leads to the prefix: one host has many spellings, and browsers know more of them than we do.
    """
    seen = location.replace(b"\t", b"").replace(b"\\", b"/").strip()
    origin, rest = b"", seen
    if (named := _SCHEME.fullmatch(seen)) is not None:
        if named[1].lower() not in (b"http", b"https"):
            return location
        if not named[2].startswith(b"//"):
            return strip + b"/"  # to browsers a path, if the scheme is that of the page
        origin, rest = named[1].lower() + b":", named[2]
    if (parted := _AUTHORITY.fullmatch(rest)) is not None:
        if parted[1].rpartition(b"@")[2].lower() != host:
            return location if not is_guarded or _is_another(parted[1], host) else strip + b"/"
        origin, rest = b"%b//%b" % (origin, host), parted[2] if parted[2].startswith(b"/") else b"/" + parted[2]
    path, more = _split(rest)
    if not path:
        return location
    if not path.startswith(b"/"):
        asked = _resolved(b"%b/%b" % (_split(target)[0].rpartition(b"/")[0], path))
        return location if asked.startswith(strip + b"/") else strip + b"/"
    resolved = _resolved(path)
    if resolved != strip and not resolved.startswith(strip + b"/"):
        return origin + strip + resolved + more
    return location if not origin and resolved == path and seen == location else origin + resolved + more


def _is_another(authority: bytes, host: bytes) -> bool:
    """Whether it is another host for certain: by name, whatever the port."""
    named = _PLAIN_NAME.fullmatch(authority)
    return named is not None and named[1].lower() != host.partition(b":")[0].removesuffix(b".")


def _split(text: bytes) -> tuple[bytes, bytes]:
    """The path, and what follows it."""
    at = min([at for mark in (b"?", b"#") if (at := text.find(mark)) >= 0], default=len(text))
    return text[:at], text[at:]


def _resolved(path: bytes) -> bytes:
    """Without dot segments, however they are written."""
    out: list[bytes] = []
    parts = path.split(b"/")[1:]
    for at, part in enumerate(parts):
        plain = unquote_to_bytes(part) if b"%2e" in part.lower() else part
        if plain not in (b".", b".."):
            out.append(part)
            continue
        if plain == b"..":
            out = out[:-1]
        if at == len(parts) - 1:
            out.append(b"")
    return b"/" + b"/".join(out)
