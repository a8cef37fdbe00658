"""One process of the proxy beside nginx (one worker) and configurable-http-proxy, on the same upstreams in one run.

What is measured, in rounds that take turns:

- get: requests per second, small, kept alive, 64 connections (wrk); ours with the gate that checks sessions
- get-cpu: µs of the proxy's own CPU time for each of these, which a busy machine does not change much
- websocket, websocket-cpu: echo round trips per second at 100 connections, 64 bytes each way
- download: MB per second of 1 GB
- latency: what the proxy adds to the median at 100 requests per second, in ms
- idle: KB of the proxy's memory for each of 10,000 WebSockets that say nothing

nginx answers small requests and downloads, a program of 40 lines echoes; both are quicker than any of the three. They
run on the same machine and take their share of it, so the ratios say more than the figures. Needs Debian's nginx and
wrk; configurable-http-proxy comes from npm into the cache folder. `python -m bench.proxy PART…` measures parts alone.
"""

import asyncio
import os
import re
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from statistics import median
from uuid import UUID

import uvloop

from bench.report import Figure, report
from codehub.db.doors import Door, Opened
from codehub.signals.subscriptions import Told
from codehub.web.hosts import Hosts
from codehub.web.proxy.backends import Backends
from codehub.web.proxy.gate import Gate
from codehub.web.proxy.limits import Limits
from codehub.web.proxy.serving import serve
from codehub.web.server import listen

ROUNDS = 3
SECONDS = 4
CONNECTIONS, SOCKETS, IDLE = 64, 100, 10_000
OTHER_FILES = 256  # as the proxy reckons: of the rest each client needs two, and a tenth of the places is reserved
FILES = 2 * (IDLE * 10 // 9 + SOCKETS) + OTHER_FILES
SIZE = 1 << 30
WORKSPACE = UUID(int=7)
COOKIE = "theme=dark; codehub_session=Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6"
FRAME_FROM_CLIENT = b"\x82\xc0" + b"\0\0\0\0" + b"x" * 64
FRAME_FROM_SERVER = b"\x82\x40" + b"x" * 64
UPGRADE = (
    b"GET /w/%b/socket HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nCookie: %b\r\n\r\n"
) % (str(WORKSPACE).encode(), COOKIE.encode())
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "codehub-bench"


class OpenDoors:
    """What the database would say: this session's owner may enter, and there the workspace is."""

    def __init__(self, address: str) -> None:
        self._opened = Opened(address, UUID(int=1), UUID(int=2), None, is_stale=False)

    async def opened(self, asked: Sequence[Door]) -> Mapping[Door, Opened]:
        return dict.fromkeys(asked, self._opened)

    async def touch(self, _sessions: Sequence[UUID], _tokens: Sequence[UUID]) -> None:
        pass


async def nothing_happens() -> AsyncGenerator[Told | None, None]:
    yield None
    await asyncio.get_running_loop().create_future()


async def serve_behind_the_gate(port: int, upstream: int) -> None:
    """As in production, but for the statements that the gate sends every two seconds."""
    address = f"127.0.0.1:{upstream}"
    gate = Gate(OpenDoors(address), nothing_happens, Hosts("none"), Backends([address]))
    limits = Limits(connections_per_address=20_000)
    await asyncio.gather(gate.run(), serve(gate, [listen("127.0.0.1", port)], limits))


class Echo(asyncio.Protocol):
    """A WebSocket server that knows frames of one size."""

    transport: asyncio.Transport

    def __init__(self) -> None:
        self.is_open = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # uvloop's is no subclass
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        if self.is_open:
            self.transport.write(FRAME_FROM_SERVER * (len(data) // len(FRAME_FROM_CLIENT)))
        elif b"\r\n\r\n" in data:
            self.is_open = True
            self.transport.write(
                b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                b"Sec-WebSocket-Accept: ICX+Yqv66kxgM0FcWaLWlFLwTAI=\r\n\r\n"
            )


class Caller(asyncio.Protocol):
    """A WebSocket client that sends as soon as it was answered, or only listens."""

    transport: asyncio.Transport

    def __init__(self, *, is_idle: bool) -> None:
        self.ready = asyncio.get_running_loop().create_future()
        self.trips = 0
        self._is_idle = is_idle
        self._is_open = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # uvloop's is no subclass
        self.transport = transport
        transport.write(UPGRADE)

    def data_received(self, data: bytes) -> None:
        if self._is_open:
            self.trips += 1
        elif b" 101 " not in data:
            self.ready.set_exception(RuntimeError(f"no WebSocket: {data[:200]!r}"))
            return
        else:
            self._is_open = True
            self.ready.set_result(None)
        if not self._is_idle:
            self.transport.write(FRAME_FROM_CLIENT)


async def call(port: int, number: int, *, is_idle: bool) -> list[Caller]:
    loop = asyncio.get_running_loop()
    callers = []
    for _ in range(number):
        _, caller = await loop.create_connection(lambda: Caller(is_idle=is_idle), "127.0.0.1", port)
        await caller.ready
        callers.append(caller)
    return callers


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


@contextmanager
def program(port: int, *command: str) -> Iterator[int]:
    """Runs until the end of the block; its process id, once the port answers."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        try:
            until = time.monotonic() + 20
            while True:
                try:
                    socket.create_connection(("127.0.0.1", port), 1).close()
                    break
                except OSError:
                    if process.poll() is not None or time.monotonic() > until:
                        raise SystemExit(f"{command[0]} does not start") from None
                    time.sleep(0.05)
            yield process.pid
        finally:
            process.terminate()


def nginx(folder: Path, port: int, content: str) -> tuple[str, ...]:
    config = folder / f"{port}.conf"
    config.write_text(
        f"daemon off; master_process off; worker_processes 1; pid {folder}/{port}.pid; error_log stderr crit;"
        "events { worker_connections 30000; }\n"
        "http { access_log off; keepalive_requests 100000000; sendfile on; tcp_nodelay on;"
        f" client_body_temp_path {folder}/b; proxy_temp_path {folder}/p; fastcgi_temp_path {folder}/f;"
        f" uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;\n{content}\n}}\n"
    )
    return ("nginx", "-c", str(config), "-p", str(folder))


def served_by_nginx(folder: Path, port: int) -> tuple[str, ...]:
    with (folder / "big").open("wb") as big:
        big.truncate(SIZE)
    return nginx(
        folder,
        port,
        f"server {{ listen 127.0.0.1:{port} backlog=4096; root {folder};"
        f" location / {{ default_type text/plain; return 200 'hello'; }}"
        f" location ~ /big$ {{ alias {folder}/big; }} }}",
    )


def proxied_by_nginx(folder: Path, port: int, upstream: int) -> tuple[str, ...]:
    return nginx(
        folder,
        port,
        f"upstream there {{ server 127.0.0.1:{upstream}; keepalive 128; }}\n"
        'map $http_upgrade $connection_upgrade { default upgrade; "" ""; }\n'
        f"server {{ listen 127.0.0.1:{port} backlog=4096; location / {{ proxy_pass http://there;"
        " proxy_http_version 1.1; proxy_set_header Host $http_host; proxy_set_header X-Forwarded-For $remote_addr;"
        " proxy_set_header X-Forwarded-Host $http_host; proxy_set_header X-Forwarded-Proto $scheme;"
        " proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection $connection_upgrade;"
        " proxy_read_timeout 600s; proxy_max_temp_file_size 0; } }",
    )


def peer_from_npm() -> str:
    found = CACHE / "node_modules/.bin/configurable-http-proxy"
    if not found.exists():
        npm = ("npm", "install", "--silent", "--prefix", str(CACHE), "configurable-http-proxy@5")
        subprocess.run(npm, check=True)
    return str(found)


@contextmanager
def proxies(folder: Path, upstream: int) -> Iterator[dict[str, tuple[int, int]]]:
    """Port and process of each of the three, in front of one upstream."""
    with ExitStack() as stack:
        ours, peer, other = free_port(), free_port(), free_port()
        yield {
            "ours": (ours, stack.enter_context(program(ours, *_own("serve", ours, upstream)))),
            "nginx": (peer, stack.enter_context(program(peer, *proxied_by_nginx(folder, peer, upstream)))),
            "chp": (
                other,
                stack.enter_context(
                    program(
                        other,
                        *(peer_from_npm(), "--ip", "127.0.0.1", "--port", str(other), "--api-port", str(free_port())),
                        *("--default-target", f"http://127.0.0.1:{upstream}", "--log-level", "error"),
                    )
                ),
            ),
        }


def _own(*arguments: object) -> tuple[str, ...]:
    return (sys.executable, "-m", "bench.proxy", *map(str, arguments))


def gets(port: int, _pid: int) -> float:
    url = f"http://127.0.0.1:{port}/w/{WORKSPACE}/small"
    command = ("wrk", "-t1", f"-c{CONNECTIONS}", f"-d{SECONDS}s", "--timeout", "20s", "-H", f"Cookie: {COOKIE}", url)
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    if "Non-2xx" in said or "Socket errors" in said:
        raise SystemExit(said)
    return float(re.search(r"Requests/sec:\s+([0-9.]+)", said)[1])  # type: ignore[index]


def downloads(port: int, _pid: int) -> float:
    with socket.create_connection(("127.0.0.1", port)) as sock:
        sock.sendall(f"GET /w/{WORKSPACE}/big HTTP/1.1\r\nHost: a\r\nCookie: {COOKIE}\r\n\r\n".encode())
        buffer, got, started = bytearray(1 << 20), 0, time.perf_counter()
        while got < SIZE:
            size = sock.recv_into(buffer)
            if not size:
                raise SystemExit("a download broke off")
            got += size
        return SIZE / 1e6 / (time.perf_counter() - started)


def latency(port: int, _pid: int) -> float:
    """Median of a round trip, in ms."""
    request = f"GET /w/{WORKSPACE}/small HTTP/1.1\r\nHost: a\r\nCookie: {COOKIE}\r\n\r\n".encode()
    taken = []
    with socket.create_connection(("127.0.0.1", port)) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(400):
            time.sleep(0.01)  # one at a time, on a connection that rests in between
            started = time.perf_counter()
            sock.sendall(request)
            while not sock.recv(65536).endswith(b"hello"):
                pass
            taken.append((time.perf_counter() - started) * 1000)
    return median(taken)


def trips(port: int, _pid: int) -> float:
    async def run() -> float:
        callers = await call(port, SOCKETS, is_idle=False)
        before, started = sum(caller.trips for caller in callers), time.perf_counter()
        await asyncio.sleep(SECONDS)
        done = sum(caller.trips for caller in callers) - before
        rate = done / (time.perf_counter() - started)
        for caller in callers:
            caller.transport.abort()
        return rate

    return uvloop.run(run())


def idle(port: int, pid: int) -> float:
    async def run() -> float:
        before = _memory(pid)
        number = how_many_idle()
        callers = await call(port, number, is_idle=True)
        await asyncio.sleep(2)  # whatever connecting left to do
        used = _memory(pid) - before
        for caller in callers:
            caller.transport.abort()
        return used / number

    return uvloop.run(run())


def _memory(pid: int) -> float:
    (line,) = (line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS:"))
    return float(line.split()[1])


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


Measure = Callable[[int, int], float]
# The part, what is measured, the unit, which upstream, in how many rounds.
PARTS: dict[str, tuple[Measure, str, str, int]] = {
    "get": (gets, "requests/s", "nginx", ROUNDS),
    "websocket": (trips, "trips/s", "echo", ROUNDS),
    "download": (downloads, "MB/s", "nginx", ROUNDS),
    "latency": (latency, "ms", "nginx", ROUNDS),
    "idle": (idle, "KB each", "echo", 1),
}


def measure(part: str, folder: Path, upstreams: dict[str, int]) -> list[Figure]:
    how, unit, upstream, rounds = PARTS[part]
    found: dict[str, list[float]] = {"ours": [], "nginx": [], "chp": []}
    cpu: dict[str, list[float]] = {"ours": [], "nginx": [], "chp": []}
    with proxies(folder, upstreams[upstream]) as ready:
        for _ in range(rounds):
            direct = how(upstreams[upstream], 0) if part == "latency" else 0.0
            for name, (port, pid) in ready.items():
                before = _cpu_seconds(pid)
                value = how(port, pid)
                found[name].append(value - direct)
                cpu[name].append((_cpu_seconds(pid) - before) / (value * SECONDS) * 1e6)
            print(part, {name: round(values[-1], 3) for name, values in found.items()}, flush=True)
    figures = [Figure(f"{part}-{peer}", unit, found["ours"], found[peer]) for peer in ("nginx", "chp")]
    if part in ("get", "websocket"):
        figures += [Figure(f"{part}-cpu-{peer}", "µs", cpu["ours"], cpu[peer]) for peer in ("nginx", "chp")]
    return figures


def main(parts: list[str]) -> None:
    for needed in ("nginx", "wrk", "npm"):
        if shutil.which(needed) is None:
            raise SystemExit(f"this benchmark needs {needed}; Debian has it")
    folder = Path(tempfile.mkdtemp(prefix="codehub-bench-"))
    folder.chmod(0o755)
    ports = {"nginx": free_port(), "echo": free_port()}
    try:
        with (
            program(ports["nginx"], *served_by_nginx(folder, ports["nginx"])),
            program(ports["echo"], *_own("echo", ports["echo"])),
        ):
            report("proxy", [figure for part in parts for figure in measure(part, folder, ports)])
    finally:
        shutil.rmtree(folder)


async def echo(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(Echo, "127.0.0.1", port, backlog=4096)
    await server.serve_forever()


def allow_files() -> int:
    """As many as may be open; beyond the hard limit only a privileged root may go."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = max(FILES, hard)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, wanted))
        return wanted
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def how_many_idle() -> int:
    """10,000, or as many as fit."""
    files = allow_files()
    fit = min(IDLE, (files - OTHER_FILES) // 2 * 9 // 10 - SOCKETS)
    if fit < IDLE:
        sys.stderr.write(f"{files} files may be open, enough for {fit} WebSockets: ulimit -Hn {FILES} for {IDLE}\n")
    return fit


def run(role: Awaitable[None]) -> None:
    async def running() -> None:
        await role

    uvloop.run(running())


if __name__ == "__main__":
    allow_files()
    match sys.argv[1:]:
        case ["serve", port, upstream]:
            run(serve_behind_the_gate(int(port), int(upstream)))
        case ["echo", port]:
            run(echo(int(port)))
        case wanted:
            main(wanted or list(PARTS))
