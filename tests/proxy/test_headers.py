"""What a head becomes on its way, as tables."""

from dataclasses import replace

import pytest

from codehub.web.forwarded import networks
from codehub.web.proxy.headers import (
    confined,
    is_own_origin,
    located,
    request_fields,
    response_fields,
    sent_target,
    trailers,
)
from codehub.web.proxy.heads import read_fields, read_request, read_response
from codehub.web.proxy.ports import Request, Route
from codehub.web.proxy.requests import request_of
from tests.proxy.world import WORKSPACE

PATH = Route("k", "a:1", WORKSPACE, strip=b"/w/7", cookie_path=b"/w/7/")
GUARDED = replace(PATH, policy=b"content-security-policy: sandbox\r\n")
OWN = Route("k", "a:1", WORKSPACE)
API = Route("api", "a:2")


def asked(fields: bytes = b"", *, secure: bool = False, upgrade: bool = False, host: bytes = b"hub:8080") -> Request:
    return Request(b"GET", b"/", read_fields(fields).pairs, host, "10.0.0.9", secure, upgrade)


def sent(block: bytes, route: Route, request: Request | None = None) -> list[bytes]:
    return request_fields(read_fields(block), request or asked(block), route).split(b"\r\n")[:-2]


OURS = [b"host: hub:8080", b"x-forwarded-for: 10.0.0.9", b"x-forwarded-host: hub:8080", b"x-forwarded-proto: http"]


@pytest.mark.parametrize(
    ("block", "to_workspace", "to_api"),
    [
        (b"Accept: a\r\nAccept: b", [b"accept: a", b"accept: b"], [b"accept: a", b"accept: b"]),
        (b"Host: evil", [], []),
        (b"Forwarded: for=1", [], []),
        (b"X-Forwarded-For: 1.1.1.1", [], []),
        (b"X_Forwarded_For: 1.1.1.1", [], []),
        (b"X-Forwarded-Anything: x", [], []),
        (b"X-Real-IP: 1.1.1.1", [], []),
        (b"X-CodeHub-User: root", [], []),
        (b"x-codehub_user: root", [], []),
        (b"Content_Length: 3", [], []),
        (b"Transfer_Encoding: chunked", [], []),
        (b"Proxy_Connection: close", [], []),
        (b"X_Own: 1", [b"x_own: 1"], [b"x_own: 1"]),
        (b"Connection: close, X-Secret\r\nX-Secret: 1\r\nX-Open: 2", [b"x-open: 2"], [b"x-open: 2"]),
        (b"Keep-Alive: 5\r\nProxy-Connection: a\r\nTE: trailers\r\nProxy-Authorization: x", [], []),
        (b"Upgrade: h2c\r\nHTTP2-Settings: x\r\nConnection: upgrade, http2-settings", [], []),
        (b"Authorization: Bearer x", [], [b"authorization: Bearer x"]),
        (b"Cookie: a=1; codehub_session=s; b=2", [b"cookie: a=1; b=2"], [b"cookie: a=1; codehub_session=s; b=2"]),
        (b"Cookie: codehub_session=s", [], [b"cookie: codehub_session=s"]),
        (b"Cookie: __Host-codehub_session=s;codehub_x=d", [], [b"cookie: __Host-codehub_session=s;codehub_x=d"]),
        (b"Cookie:  codehub_oidc =x; c=3", [b"cookie: c=3"], [b"cookie: codehub_oidc =x; c=3"]),
        (b"Cookie: codehub_of_tomorrow=x; c=3", [b"cookie: c=3"], [b"cookie: codehub_of_tomorrow=x; c=3"]),
        (b"Cookie: notcodehub_session=x", [b"cookie: notcodehub_session=x"], [b"cookie: notcodehub_session=x"]),
        (b"Sec-WebSocket-Key: x", [b"sec-websocket-key: x"], []),
        (b"Content-Length: 3", [b"content-length: 3"], [b"content-length: 3"]),
        (b"Transfer-Encoding: Chunked", [b"transfer-encoding: chunked"], [b"transfer-encoding: chunked"]),
        (b"Expect: 100-continue", [b"expect: 100-continue"], [b"expect: 100-continue"]),
        (b"X-Empty:", [b"x-empty: "], [b"x-empty: "]),
        (b"X-Request-ID: 0123456789abcdef", [b"x-request-id: 0123456789abcdef"], []),
    ],
)  # fmt: skip
def test_requests(block: bytes, to_workspace: list[bytes], to_api: list[bytes]) -> None:
    assert sorted(sent(block, OWN)) == sorted(OURS + to_workspace)
    assert sorted(sent(block, API)) == sorted(OURS + to_api)


def test_the_id_of_a_request_is_a_trusted_proxys_to_choose() -> None:
    block = b"Host: hub\r\nX-Request-ID: 0123456789abcdef"
    head = read_request(b"GET / HTTP/1.1\r\n" + block)
    trusting = request_of(head, "10.0.0.1", b"", is_tls=False, trusted=networks(["10.0.0.0/8"]))
    assert b"x-request-id: 0123456789abcdef" in sent(block, API, trusting)
    other = request_of(head, "10.0.0.1", b"", is_tls=False, trusted=None)
    assert not any(line.startswith(b"x-request-id") for line in sent(block, API, other))


def test_a_websocket_and_a_prefix_and_the_gate_s_own_words() -> None:
    route = Route("k", "a:1", WORKSPACE, strip=b"/w/7", cookie_path=b"/w/7/", headers=((b"x-codehub-visit", b"1"),))
    lines = sent(b"Upgrade: websocket\r\nConnection: keep-alive, Upgrade", route, asked(secure=True, upgrade=True))
    assert b"connection: Upgrade" in lines
    assert b"upgrade: websocket" in lines
    assert b"x-forwarded-prefix: /w/7" in lines
    assert b"x-forwarded-proto: https" in lines
    assert b"x-codehub-visit: 1" in lines


def answered(block: bytes, route: Route) -> list[bytes]:
    return response_fields(read_response(b"HTTP/1.1 200 OK\r\n" + block), asked(), route).split(b"\r\n")[:-1]


@pytest.mark.parametrize(
    ("block", "path", "own", "api"),
    [
        (b"ETag: x", True, True, True),
        (b"Content-Security-Policy: x", True, True, True),
        (b"Keep-Alive: timeout=5", False, False, False),
        (b"Content-Length: 0", False, False, False),
        (b"Upgrade: h2c", False, False, False),
        (b"Clear-Site-Data: *", False, False, True),
        (b"Strict-Transport-Security: max-age=1; includeSubDomains", False, False, True),
        (b"Alt-Svc: h3", False, False, True),
        (b"Service-Worker-Allowed: /", False, True, True),
        (b"X-CodeHub-Anything: x", False, False, True),
    ],
)
def test_responses(block: bytes, path: bool, own: bool, api: bool) -> None:
    for route, passes in ((PATH, path), (OWN, own), (API, api)):
        assert bool(answered(block, route)) is passes


@pytest.mark.parametrize(
    ("cookie", "path", "own"),
    [
        (b"a=1", b"a=1; Path=/w/7/", b"a=1"),
        (b"a=1; Path=/", b"a=1; Path=/w/7/", b"a=1; Path=/"),
        (b"a=1; path=/sub", b"a=1; Path=/w/7/sub", b"a=1; Path=/sub"),
        (b"a=1; Path=/w/7/sub", b"a=1; Path=/w/7/sub", b"a=1; Path=/w/7/sub"),
        (b"a=1; Path=/w/7", b"a=1; Path=/w/7/", b"a=1; Path=/w/7"),
        (b"a=1; Path=/w/77", b"a=1; Path=/w/7/w/77", b"a=1; Path=/w/77"),
        (b"a=1; Path=/x; Path=/w/8", b"a=1; Path=/w/7/w/8", b"a=1; Path=/w/8"),
        (b"a=1; Path=nonsense", b"a=1; Path=/w/7/", b"a=1; Path=nonsense"),
        (b"a=1; Domain=.example.com; HttpOnly", b"a=1; HttpOnly; Path=/w/7/", b"a=1; HttpOnly"),
        (b"a=1; DOMAIN = x ;Secure", b"a=1; Secure; Path=/w/7/", b"a=1; Secure"),
        (b"codehub_session=x", None, None),
        (b"  codehub_session\t=x", None, None),
        (b"CODEHUB_SESSION=x", None, None),
        (b"__Host-codehub_session=x; Secure; Path=/", None, None),
        (b"__host-codehub_session=x; Secure; Path=/", None, None),
        (b"__Secure-codehub_x=x; Secure", None, None),
        (b"codehub_anything=x", None, None),
        (b"=codehub_session=x", None, None),
        (b"codehub_session", None, None),
        (b"novalue", None, None),
        (b"", None, None),
        (b"__Host-a=1; Secure; Path=/", None, b"__Host-a=1; Secure; Path=/"),
        (b"__Secure-a=1; Secure", b"__Secure-a=1; Secure; Path=/w/7/", b"__Secure-a=1; Secure"),
        (b"a=b=c; SameSite=None", b"a=b=c; SameSite=None; Path=/w/7/", b"a=b=c; SameSite=None"),
    ],
)
def test_a_workspace_s_cookies(cookie: bytes, path: bytes | None, own: bytes | None) -> None:
    assert confined(cookie, PATH) == path
    assert confined(cookie, OWN) == own


def test_cookies_are_confined_in_an_answer_and_the_api_s_are_not() -> None:
    block = b"Set-Cookie: codehub_session=evil\r\nSet-Cookie: a=1; Domain=x\r\nSet-Cookie: b=2"
    assert answered(block, PATH) == [b"set-cookie: a=1; Path=/w/7/", b"set-cookie: b=2; Path=/w/7/"]
    assert len(answered(block, API)) == 3


@pytest.mark.parametrize(
    ("location", "becomes"),
    [
        (b"/login", b"/w/7/login"),
        (b"/", b"/w/7/"),
        (b"./?folder=x", b"./?folder=x"),
        (b"/w/7/lab", b"/w/7/lab"),
        (b"/w/7?x", b"/w/7?x"),
        (b"/w/77/", b"/w/7/w/77/"),
        (b"//evil.example/", b"//evil.example/"),
        (b"https://example.com/", b"https://example.com/"),
        (b"http://hub:8080/x", b"http://hub:8080/w/7/x"),
        (b"http://hub:80801/x", b"http://hub:80801/x"),
        (b"", b""),
        (b"?a=/../../x", b"?a=/../../x"),
        (b"lab/tree", b"lab/tree"),
        (b"../../api/v1/users", b"/w/7/"),
        (b"..", b"/w/7/"),
        (b"..%2f..", b"..%2f.."),
        (b"a/../../../x", b"/w/7/"),
        (b"%2e%2E/%2e./x", b"/w/7/"),
        (b"/w/7/../../api/v1/users", b"/w/7/api/v1/users"),
        (b"/w/7/%2e%2e/8/", b"/w/7/w/8/"),
        (b"/w/7/a/../b?c#d", b"/w/7/b?c#d"),
        (b"//hub:8080/api/v1", b"//hub:8080/w/7/api/v1"),
        (b"///hub:8080/api/v1", b"//hub:8080/w/7/api/v1"),
        (b"/\\hub:8080/api", b"//hub:8080/w/7/api"),
        (b"\\\\hub:8080\\api", b"//hub:8080/w/7/api"),
        (b"HTTP:/\\HUB:8080/api", b"http://hub:8080/w/7/api"),
        (b"http:hub:8080/api", b"/w/7/"),
        (b"http:../../api/v1/users", b"/w/7/"),
        (b"HTTPS:/api/v1/users", b"/w/7/"),
        (b"ht\ttp://hub:8080/\tapi", b"http://hub:8080/w/7/api"),
        (b"http://me@hub:8080/api", b"http://hub:8080/w/7/api"),
        (b"http://hub:8080", b"http://hub:8080/w/7/"),
        (b"http://hub:8080?x", b"http://hub:8080/w/7/?x"),
        (b"mailto:a@hub:8080", b"mailto:a@hub:8080"),
    ],
)
def test_redirects_below_a_prefix(location: bytes, becomes: bytes) -> None:
    request = replace(asked(), target=b"/w/7/x")
    assert located(location, request, PATH) == becomes


OTHER_SPELLINGS = [
    (b"codehub.example.com", b"https://codehub.example.com:443"),
    (b"codehub.example.com", b"http://codehub.example.com:80"),
    (b"codehub.example.com", b"//codehub.example.com:443"),
    (b"codehub.example.com", b"https://CodeHub.Example.com:443"),
    (b"codehub.example.com", b"https://codehub.example.com:"),
    (b"codehub.example.com", b"https://codehub.example.com:0443"),
    (b"codehub.example.com", b"https://codehub.example.com."),
    (b"codehub.example.com.", b"https://codehub.example.com.:443"),
    (b"codehub.example.com", b"https://codehub%2eexample.com"),
    (b"codehub.example.com", "https://codehub。example.com".encode()),
    (b"codehub.example.com", "https://ｃodehub.example.com".encode()),
    (b"codehub.example.com", b"https://xn--codehub-.example.com"),
    (b"codehub.example.com", b"https://me@codehub.example.com:443"),
    (b"hub", b"http://hub:80"),
    (b"hub", "http://h\u00adub".encode()),
    (b"192.0.2.8:8080", b"http://192.0.2.8:08080"),
    (b"192.0.2.8", b"http://192.0.2.8:80"),
    (b"192.0.2.8", b"http://0xc0000208"),
    (b"192.0.2.8", b"http://0Xc0.0.2.8"),
    (b"192.0.2.8", b"http://192.0.520"),
    (b"192.0.2.8", b"http://3221225992"),
    (b"192.0.2.8", b"http://192.0.2.8."),
    (b"192.0.2.8", b"http://0300.0.2.010"),
    (b"192.0.2.8", b"http://a.b@192.0.2.0x8"),
    (b"[2001:db8::1]:8080", b"http://[2001:db8:0::1]:8080"),
    (b"[2001:db8::1]:8080", b"//[2001:0DB8::0:1]:8080"),
]


@pytest.mark.parametrize(("ours", "origin"), OTHER_SPELLINGS)
def test_no_spelling_of_our_host_leads_out_of_the_prefix(ours: bytes, origin: bytes) -> None:
    request = replace(asked(host=ours), target=b"/w/7/x")
    assert located(origin + b"/api/v1/session", request, GUARDED) == b"/w/7/"
    assert located(origin, request, GUARDED) == b"/w/7/"


@pytest.mark.parametrize(
    "location",
    [
        b"https://evil.example/x",
        b"//cdn.evil.example:8443/x",
        b"http://HUB2/x",
        b"https://xn--bcher-kva.example/",
        b"https://1e100.net/",
        b"vscode://open",
    ],
)
def test_surely_another_host_is_where_a_redirect_may_lead(location: bytes) -> None:
    assert located(location, replace(asked(), target=b"/w/7/x"), GUARDED) == location


def test_where_pages_are_trusted_a_redirect_may_lead_to_any_other_host() -> None:
    request = replace(asked(), target=b"/w/7/x")
    assert located(b"http://10.0.0.5/x", request, PATH) == b"http://10.0.0.5/x"
    assert located(b"http://10.0.0.5/x", request, GUARDED) == b"/w/7/"


@pytest.mark.parametrize(
    ("policy", "kept"),
    [
        (b"report-uri /api/v1/logout?everywhere=true", None),
        (b"default-src 'self'; report-uri /api/v1/logout", b"default-src 'self'"),
        (b"default-src 'self';REPORT-URI\t/a;report-to a; img-src *", b"default-src 'self'; img-src *"),
        (b"a;\treport-uri\t/x, b; report-to x,report-uri /y", b"a, b,"),
        (b"script-src 'report-sample'", b"script-src 'report-sample'"),
    ],
)
def test_a_workspaces_policy_reports_to_nobody(policy: bytes, kept: bytes | None) -> None:
    """A report is a request to any path of this origin, with the cookie."""
    block = b"Content-Security-Policy: %b\r\nContent-Security-Policy-Report-Only: %b" % (policy, policy)
    ours = [GUARDED.policy.strip()]
    assert answered(block, GUARDED) == ([] if kept is None else [b"content-security-policy: " + kept]) + ours
    assert len(answered(block, OWN)) == 2, "on its own origin it says what it likes"


@pytest.mark.parametrize(
    ("target", "becomes"),
    [(b"/w/7/a?b", b"/a?b"), (b"/w/7/", b"/"), (b"/w/7", b"/"), (b"/w/7?x=1", b"/?x=1"), (b"/w/7//x", b"//x")],
)
def test_the_prefix_is_taken_off(target: bytes, becomes: bytes) -> None:
    assert sent_target(target, PATH) == becomes
    assert sent_target(target, OWN) == target


@pytest.mark.parametrize(
    ("origin", "host", "secure", "allowed"),
    [
        (None, b"7.localhost:8080", False, True),
        (b"http://7.localhost:8080", b"7.localhost:8080", False, True),
        (b"HTTP://7.LOCALHOST:8080", b"7.localhost:8080", False, True),
        (b"https://7.localhost:8080", b"7.localhost:8080", False, False),
        (b"http://8.localhost:8080", b"7.localhost:8080", False, False),
        (b"http://localhost:8080", b"7.localhost:8080", False, False),
        (b"http://7.localhost", b"7.localhost:8080", False, False),
        (b"http://7.localhost:80", b"7.localhost", False, True),
        (b"https://7.example", b"7.example:443", True, True),
        (b"null", b"7.localhost:8080", False, False),
        (b"", b"7.localhost:8080", False, False),
    ],
)
def test_who_may_open_a_websocket(origin: bytes | None, host: bytes, secure: bool, allowed: bool) -> None:
    block = b"" if origin is None else b"Origin: " + origin
    assert is_own_origin(asked(block, host=host, secure=secure)) is allowed


def test_two_origins_are_none() -> None:
    assert not is_own_origin(asked(b"Origin: http://hub:8080\r\nOrigin: http://hub:8080"))


def test_trailers_say_nothing_that_a_head_should_have_said() -> None:
    block = b"X-Sum: 1\r\nContent-Length: 3\r\nHost: x\r\nAuthorization: x\r\nCookie: a=b\r\n"
    block += b"Set-Cookie: a=b\r\nX-Forwarded-For: 1\r\nTrailer: x\r\nContent_Length: 3\r\nTransfer_Encoding: chunked"
    assert trailers(read_fields(block).pairs) == b"x-sum: 1\r\n"


@pytest.mark.parametrize(
    ("fields", "trusted", "expected"),
    [
        (b"", (), ("10.0.0.1", b"hub", False)),
        (b"X-Forwarded-For: 9.9.9.9\r\nX-Forwarded-Proto: https", (), ("10.0.0.1", b"hub", False)),
        (
            b"X-Forwarded-For: 6.6.6.6, 9.9.9.9\r\nX-Forwarded-Host: evil, Public.example\r\nX-Forwarded-Proto: https",
            ("10.0.0.0/8",),
            ("9.9.9.9", b"public.example", True),
        ),
        (b"X-Forwarded-For: 9.9.9.9, 10.2.2.2", ("10.0.0.0/8",), ("9.9.9.9", b"hub", False)),
        (b"X-Forwarded-Host: a b/c", ("10.0.0.0/8",), ("10.0.0.1", b"hub", False)),
        (b"X-Forwarded-For: nonsense", ("10.0.0.0/8",), ("10.0.0.1", b"hub", False)),
    ],
)  # fmt: skip
def test_whose_words_are_believed(fields: bytes, trusted: tuple[str, ...], expected: tuple[str, bytes, bool]) -> None:
    head = read_request(b"GET / HTTP/1.1\r\nHost: hub" + (b"\r\n" + fields if fields else b""))
    got = request_of(head, "10.0.0.1", b"", is_tls=False, trusted=networks(trusted) if trusted else None)
    assert (got.peer, got.host, got.is_secure) == expected


@pytest.mark.parametrize(
    ("fields", "peer"),
    [
        (b"", "127.0.0.1"),
        (b"\r\nX-Forwarded-For: 9.9.9.9", "9.9.9.9"),
        (b"\r\nX-Forwarded-For: 9.9.9.9:1234", "unknown"),
        (b"\r\nX-Forwarded-For: 127.0.0.1", "unknown"),
        (b"\r\nX-Real-IP: 9.9.9.9", "unknown"),
        (b"\r\nForwarded: for=9.9.9.9", "unknown"),
    ],
)
def test_whom_a_proxy_on_this_machine_speaks_for_is_not_this_machine(fields: bytes, peer: str) -> None:
    head = read_request(b"GET / HTTP/1.1\r\nHost: hub" + fields)
    assert request_of(head, "127.0.0.1", b"", is_tls=False, trusted=networks(["127.0.0.0/8"])).peer == peer
    unnamed = request_of(head, "127.0.0.1", b"", is_tls=False, trusted=None)
    assert unnamed.peer == ("unknown" if fields else "127.0.0.1"), "one that no setting names is not believed either"
    assert request_of(head, "10.0.0.1", b"", is_tls=False, trusted=None).peer == "10.0.0.1"


@pytest.mark.parametrize(
    ("head", "is_upgrade"),
    [
        (b"GET / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\nUpgrade: WebSocket", True),
        (b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 0", True),
        (b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 1", False),
        (
            b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nTransfer-Encoding: chunked",
            False,
        ),
        (b"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket", False),
        (b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: h2c", False),
        (b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket, h2c", False),
        (b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nUpgrade: websocket", False),
        (b"POST / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket", False),
        (b"GET / HTTP/1.0\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket", False),
    ],
)
def test_what_asks_for_a_websocket(head: bytes, is_upgrade: bool) -> None:
    assert request_of(read_request(head), "::1", b"", is_tls=False, trusted=None).is_upgrade is is_upgrade
