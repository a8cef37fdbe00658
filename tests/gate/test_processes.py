"""`codehub proxy` as processes: two share one port, one that ends is not missed, and the URL they say is theirs.

One is ready once its login has worked: not before, and then through every outage.
"""

import re
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from codehub.web.health import FRESH_SECONDS
from tests.cli.codehub import environment
from tests.proxy.test_tls import make
from tests.proxy.world import echo_heads, upstream
from tests.support import eventually, free_port

ANSWERED = re.compile(r'^codehub_proxy_answers_total\{by="api",status="2xx"\} ([0-9.]+)$', re.MULTILINE)


@contextmanager
def proxy_process(log: Path, port: int, health: int, api: str, **more: str) -> Iterator["subprocess.Popen[bytes]"]:
    """It starts although neither PostgreSQL nor Redis is there."""
    given = {
        "DATABASE_URL": "postgresql://nobody@127.0.0.1:1/nothing",
        "REDIS_URL": "redis://127.0.0.1:1",
        "CODEHUB_API_URL": f"http://{api}",
        "CODEHUB_PORT": str(port),
        "CODEHUB_HEALTH_PORT": str(health),
        **more,
    }
    with (
        log.open("wb") as out,
        subprocess.Popen(
            [sys.executable, "-m", "codehub", "proxy"], stdout=out, stderr=out, env=environment(**given)
        ) as process,
    ):
        try:
            eventually(lambda: "is running" in log.read_text() or process.poll() is not None, "it runs", 60)
            assert process.poll() is None, log.read_text()
            yield process
        finally:
            process.kill()


def answered(health: int) -> float:
    """How many requests this process has passed on."""
    try:
        found = ANSWERED.search(httpx.get(f"http://127.0.0.1:{health}/metrics", trust_env=False).text)
    except httpx.TransportError:
        return 0
    return float(found[1]) if found else 0


def test_two_processes_share_a_port(tmp_path: Path) -> None:
    port, healths = free_port(), [free_port(), free_port()]
    with upstream(echo_heads) as api, ExitStack() as stack:
        first, _ = [
            stack.enter_context(proxy_process(tmp_path / f"{health}", port, health, api.address)) for health in healths
        ]

        def ask() -> None:
            answer = httpx.get(f"http://127.0.0.1:{port}/x", trust_env=False)  # a connection of its own
            assert answer.text.startswith("GET /x ")

        def both_have_served() -> bool:
            for _ in range(10):
                ask()
            return all(answered(health) > 0 for health in healths)

        eventually(both_have_served, "the kernel shares connections out")
        first.terminate()
        assert first.wait(60) == 0
        for _ in range(10):
            ask()


def test_with_a_certificate_it_says_https(tmp_path: Path) -> None:
    chain, key = make(tmp_path, "localhost")
    port, log = free_port(), tmp_path / "log"
    files = {"CODEHUB_TLS_CERT": str(chain), "CODEHUB_TLS_KEY": str(key)}
    with (
        upstream(echo_heads) as api,
        proxy_process(log, port, free_port(), api.address, CODEHUB_HOST="0.0.0.0", **files),
    ):
        assert f"running at https://localhost:{port}/." in log.read_text()
        answer = httpx.get(
            f"https://localhost:{port}/x", verify=ssl.create_default_context(cafile=chain), trust_env=False
        )
        assert "x-forwarded-proto: https" in answer.text


def test_it_is_ready_once_its_own_login_has_worked_and_stays_so(tmp_path: Path, database: str) -> None:
    login = f"proxy_of_{conninfo_to_dict(database)['dbname']}"
    port, health = free_port(), free_port()
    url = make_conninfo(database, user=login, password="p")

    def ready() -> httpx.Response:
        return httpx.get(f"http://127.0.0.1:{health}/readyz", timeout=20, trust_env=False)

    def keeps_saying(status: int) -> None:
        """For longer than an answer is remembered: that nothing changes is shown by nothing but time."""
        until = time.monotonic() + 2 * FRESH_SECONDS
        while time.monotonic() < until:
            assert ready().status_code == status
            time.sleep(0.2)

    with psycopg.connect(database, autocommit=True) as owner:

        def tell(statement: str) -> None:
            owner.execute(sql.SQL(statement).format(sql.Identifier(login)))

        try:
            with (
                upstream(echo_heads) as api,
                proxy_process(tmp_path / "log", port, health, api.address, DATABASE_URL=url),
            ):
                not_yet = ready()
                assert not_yet.status_code == 503
                assert "codehub migrate" in not_yet.json()["dependencies"]["postgresql"]["detail"]
                assert httpx.get(f"http://127.0.0.1:{port}/x", trust_env=False).is_success, "but it serves"
                tell("CREATE ROLE {} LOGIN PASSWORD 'p'")
                keeps_saying(503)  # a login that is not a proxy's is not enough
                tell("GRANT codehub_proxy TO {}")
                eventually(lambda: ready().status_code == 200, "it is ready", 30)
                tell("ALTER ROLE {} NOLOGIN")
                owner.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = %s", [login])
                keeps_saying(200)  # it is the database that is away, for all of them
        finally:
            tell("DROP ROLE IF EXISTS {}")
