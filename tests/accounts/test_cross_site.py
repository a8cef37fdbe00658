"""What another site makes a browser send is refused, and where a request comes from is not for the sender to say."""

import httpx
import pytest
from starlette.requests import HTTPConnection

from codehub.config import AccountConfig
from codehub.db.pool import Pool
from codehub.web.cookies import value_of
from codehub.web.csrf import client_address, is_secure, own_origin
from tests.accounts.people import Person, add_person, session_headers, token_headers
from tests.accounts.providers import BASE_URL


@pytest.fixture
async def ada(pool: Pool) -> Person:
    return await add_person(pool)


OURS = [
    {"Sec-Fetch-Site": "same-origin"},
    {"Sec-Fetch-Site": "none"},
    {"Origin": BASE_URL},
    {"Origin": f"{BASE_URL}:80"},
    {"Sec-Fetch-Site": "same-origin", "Origin": "null"},
    {},
]
OTHERS = [
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
    {"Sec-Fetch-Site": ""},
    {"Sec-Fetch-Site": "cross-site", "Origin": BASE_URL},
    {"Origin": "null"},
    {"Origin": ""},
    {"Origin": "https://codehub.test"},
    {"Origin": f"{BASE_URL}:8080"},
    {"Origin": "http://evil.codehub.test"},
    {"Origin": f"{BASE_URL}.evil.example"},
]


async def of_session(pool: Pool, person: Person) -> dict[str, str]:
    """All that it takes but where the request comes from: so nothing else can be the reason for a refusal."""
    headers = await session_headers(pool, person)
    del headers["Sec-Fetch-Site"]
    return headers


@pytest.mark.parametrize("headers", OURS)
async def test_our_own_pages_and_programs_may(
    client: httpx.AsyncClient, pool: Pool, ada: Person, headers: dict[str, str]
) -> None:
    sent = await of_session(pool, ada) | headers
    answer = await client.post("/api/v1/tokens", headers=sent, json={"name": "t"})
    assert answer.status_code == 201


@pytest.mark.parametrize("headers", OTHERS)
async def test_other_sites_may_not(client: httpx.AsyncClient, pool: Pool, ada: Person, headers: dict[str, str]) -> None:
    sent = await of_session(pool, ada) | headers
    answer = await client.post("/api/v1/tokens", headers=sent, json={"name": "t"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "cross_site")
    assert (await client.post("/api/v1/logout", headers=sent)).status_code == 403
    assert (await client.get("/api/v1/tokens", headers=sent)).json() == {"items": []}, (
        "reading is the browser's to guard"
    )


REPORTS = [
    {"Sec-Fetch-Dest": "report"},
    {"Content-Type": "application/csp-report"},
    {"Content-Type": "application/reports+json; charset=utf-8"},
]


@pytest.mark.parametrize("headers", REPORTS)
@pytest.mark.parametrize("path", ["logout?everywhere=true", "tokens"])
async def test_a_browsers_report_is_nobodys_request(
    client: httpx.AsyncClient, pool: Pool, ada: Person, path: str, headers: dict[str, str]
) -> None:
    """A page in path mode says where it goes, and it comes from our own origin with the cookie."""
    sent = await session_headers(pool, ada)
    answer = await client.post(f"/api/v1/{path}", headers=sent | headers, content=b"{}")
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "cross_site")
    assert (await client.get("/api/v1/session", headers=sent)).status_code == 200


@pytest.mark.parametrize(
    ("dest", "status"),
    [(None, 200), ("empty", 200), ("document", 200)]
    + [(each, 403) for each in ("image", "script", "style", "iframe", "json", "font", "video", "manifest", "")],
)
async def test_the_api_is_no_part_of_a_page(
    client: httpx.AsyncClient, pool: Pool, ada: Person, dest: str | None, status: int
) -> None:
    """Scripts and event sources say `empty`, downloads `document`."""
    sent = {} if dest is None else {"Sec-Fetch-Dest": dest}
    cookie, token = await session_headers(pool, ada), await token_headers(pool, ada)
    assert (await client.get("/api/v1/session", headers=cookie | sent)).status_code == status
    assert (await client.get("/api/v1/workspaces", headers=token | sent)).status_code == 200


@pytest.mark.parametrize("headers", OTHERS)
async def test_nobody_is_logged_in_by_another_site(client: httpx.AsyncClient, headers: dict[str, str]) -> None:
    answer = await client.post("/api/v1/login", headers=headers, json={"username": "a", "password": "b"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "cross_site")


async def test_a_token_in_the_header_is_no_cookie(client: httpx.AsyncClient, pool: Pool, ada: Person) -> None:
    headers = {**await token_headers(pool, ada), "Sec-Fetch-Site": "cross-site"}
    assert (await client.post("/api/v1/tokens", headers=headers, json={"name": "t"})).status_code == 201


def connection_of(
    *headers: tuple[str, str], peer: str | None = "10.0.0.1", scheme: str = "http", kind: str = "http"
) -> HTTPConnection:
    raw = [(name.lower().encode(), value.encode()) for name, value in (("Host", "codehub.test"), *headers)]
    client, server = ((peer, 1234), ("x", 80)) if peer is not None else (None, ("/run/api.sock", None))
    return HTTPConnection(
        {"type": kind, "headers": raw, "client": client, "scheme": scheme, "path": "/", "server": server}
    )


def config(**given: object) -> AccountConfig:
    return AccountConfig.model_validate(given)


FORWARDED = ("X-Forwarded-For", "198.51.100.9, 203.0.113.5, 10.0.0.2")


@pytest.mark.parametrize(
    ("trusted", "peer", "address"),
    [
        ((), "10.0.0.1", "10.0.0.1"),
        (("127.0.0.0/8",), "10.0.0.1", "10.0.0.1"),
        (("10.0.0.0/8",), "10.0.0.1", "203.0.113.5"),
        (("10.0.0.1/32",), "10.0.0.1", "10.0.0.2"),
        (("0.0.0.0/0",), "10.0.0.1", "198.51.100.9"),
        ((), None, "10.0.0.2"),  # over a unix socket comes our own proxy, which says whose request it is
        (("10.0.0.0/8",), "testclient", None),
    ],
)
def test_forwarded_addresses_are_believed_from_trusted_proxies_only(
    trusted: tuple[str, ...], peer: str | None, address: str | None
) -> None:
    assert client_address(connection_of(FORWARDED, peer=peer), config(trusted_proxies=trusted)) == address


@pytest.mark.parametrize("value", ["", "rubbish", "rubbish, rubbish", "203.0.113.5:80"])
def test_a_forwarded_address_that_is_none(value: str) -> None:
    trusting = config(trusted_proxies=("10.0.0.0/8",))
    assert client_address(connection_of(("X-Forwarded-For", value)), trusting) == "10.0.0.1"


def test_what_somebody_wrote_before_our_proxy_did_is_not_believed() -> None:
    trusting = config(trusted_proxies=("10.0.0.0/8",))
    headers = (("X-Forwarded-For", "10.9.9.9"), ("X-Forwarded-For", "203.0.113.5"))
    assert client_address(connection_of(*headers), trusting) == "203.0.113.5"


def test_the_scheme_is_the_proxys_to_say() -> None:
    header = ("X-Forwarded-Proto", "https")
    assert not is_secure(connection_of(header), config())
    assert is_secure(connection_of(header), config(trusted_proxies=("10.0.0.0/8",)))
    assert is_secure(connection_of(scheme="wss", kind="websocket"), config())
    assert is_secure(connection_of(), config(public_url="https://codehub.example.com"))


def test_the_public_url_is_our_origin() -> None:
    given = config(public_url="https://CodeHub.example.com/")
    assert own_origin(connection_of(("X-Forwarded-Host", "evil.example")), given) == "https://codehub.example.com"


def test_a_cookie_that_comes_twice_counts_as_none() -> None:
    """A sibling host can plant one; which of the two is ours, nobody can tell."""
    assert value_of(connection_of(("Cookie", "a=1; codehub_session=x")), "codehub_session") == "x"
    assert value_of(connection_of(("Cookie", "codehub_session=x; codehub_session=y")), "codehub_session") is None
    assert (
        value_of(connection_of(("Cookie", "codehub_session=x"), ("Cookie", "codehub_session=y")), "codehub_session")
        is None
    )
    assert value_of(connection_of(("Cookie", "codehub_sessionx=x; xcodehub_session=y")), "codehub_session") is None


async def test_under_tls_the_cookie_is_secure_and_bound_to_the_host(
    client: httpx.AsyncClient, pool: Pool, ada: Person
) -> None:
    cookie = (await session_headers(pool, ada))["Cookie"]
    https = {"Host": "codehub.test", "Sec-Fetch-Site": "same-origin"}
    url = "https://codehub.test/api/v1/"
    assert (await client.get(f"{url}session", headers={**https, "Cookie": cookie})).status_code == 401
    strong = {**https, "Cookie": f"__Host-{cookie}"}
    assert (await client.get(f"{url}session", headers=strong)).status_code == 200
    (ended,) = (await client.post(f"{url}logout", headers=strong)).headers.get_list("set-cookie")
    assert ended.startswith("__Host-codehub_session=")
    assert {"secure", "path=/"} <= {part.strip().lower() for part in ended.split(";")}
    assert "domain" not in ended.lower()
