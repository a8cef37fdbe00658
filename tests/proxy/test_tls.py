"""TLS on the public port: requests, WebSockets, large bodies, renewal, and files that cannot be used."""

import socket
import ssl
import subprocess
from pathlib import Path

import pytest

from codehub.errors import StartError
from codehub.web.proxy.ports import Route
from codehub.web.proxy.tls import Certificate
from tests.proxy.test_streams import take
from tests.proxy.test_websockets import UPGRADE, sockets
from tests.proxy.world import QUICK, WORKSPACE, Peer, PlainGate, Proxy, echo_heads, ok, parsed, proxy, upstream
from tests.support import eventually


def make(folder: Path, name: str) -> tuple[Path, Path]:
    """A certificate of its own."""
    chain, key = folder / "chain.pem", folder / "key.pem"
    new_chain, new_key = folder / "new-chain.pem", folder / "new-key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-days", "2", "-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name}"]
    subprocess.run([*command, "-keyout", new_key, "-out", new_chain], check=True, capture_output=True)
    new_key.replace(key)
    new_chain.replace(chain)
    return chain, key


def connect(here: Proxy, chain: Path, name: str) -> Peer:
    context = ssl.create_default_context(cafile=str(chain))
    plain = socket.create_connection(("127.0.0.1", here.port))
    try:
        peer = Peer(context.wrap_socket(plain, server_hostname=name))
    except BaseException:
        plain.close()
        raise
    here.clients.append(peer)
    return peer


def test_requests_and_downloads_and_sockets(tmp_path: Path) -> None:
    chain, key = make(tmp_path, "hub.example")

    def all_kinds(peer: Peer) -> None:
        while True:
            head = peer.head()
            if b"/big" in head:
                ok(peer, b"x" * 50_000_000)
            elif b"upgrade" in head:
                peer.unread = head + peer.unread
                sockets(peer)
            else:
                ok(peer, head)

    with upstream(all_kinds) as there:
        gate = PlainGate(Route("one", there.address, WORKSPACE))
        with proxy(gate, QUICK, tls=Certificate(chain, key)) as here:
            peer = connect(here, chain, "hub.example")
            for _ in range(2):
                peer.send(b"GET / HTTP/1.1\r\nHost: hub.example\r\n\r\n")
                assert b"x-forwarded-proto: https\r\n" in peer.answer()[2]
            assert gate.requests[0].is_secure
            peer.close()
            peer = connect(here, chain, "hub.example")
            peer.send(b"GET /big HTTP/1.1\r\nHost: hub.example\r\n\r\n")
            assert parsed(peer.head())[0] == 200
            assert take(peer, 50_000_000) == 50_000_000
            peer = connect(here, chain, "hub.example")
            peer.send(UPGRADE)
            assert b" 101 " in peer.head()
            for size in (5, 100_000):
                peer.send(b"y" * size)
                assert peer.exactly(size) == b"y" * size
            peer.close()
            eventually(lambda: not gate.only.open, "closed")


def test_plain_http_on_the_tls_port_is_no_crash(tmp_path: Path) -> None:
    with upstream(echo_heads) as there:
        gate = PlainGate(Route("one", there.address, WORKSPACE))
        with proxy(gate, QUICK, tls=Certificate(*make(tmp_path, "a"))) as here:
            peer = here.connect()
            peer.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            with pytest.raises((ConnectionResetError, EOFError)):
                peer.head()
            assert not gate.requests


def test_a_renewed_certificate_is_taken_up_and_half_a_renewal_is_not(tmp_path: Path) -> None:
    old, key = make(tmp_path, "old.example")
    with upstream(echo_heads) as there:
        gate = PlainGate(Route("one", there.address, WORKSPACE))
        with proxy(gate, QUICK, tls=Certificate(old, key)) as here:
            kept = tmp_path / "kept.pem"
            kept.write_bytes(old.read_bytes())
            before = connect(here, kept, "old.example")
            whole = old.read_bytes()
            old.write_bytes(b"half a cert")
            connect(here, kept, "old.example").close()
            old.write_bytes(whole)
            new, _ = make(tmp_path, "new.example")

            def is_new() -> bool:
                try:
                    connect(here, new, "new.example").close()
                except ssl.SSLCertVerificationError:
                    return False
                return True

            eventually(is_new, "renewed")
            before.send(b"GET / HTTP/1.1\r\nHost: old.example\r\n\r\n")
            assert before.answer()[0] == 200


def test_files_that_cannot_be_used_are_told_at_once(tmp_path: Path) -> None:
    chain, key = make(tmp_path, "a")
    other = make(_folder(tmp_path / "other"), "b")[1]
    locked = tmp_path / "locked.pem"
    subprocess.run(
        ["openssl", "ec", "-in", key, "-aes256", "-passout", "pass:secret", "-out", locked],
        check=True,
        capture_output=True,
    )
    empty = tmp_path / "empty"
    empty.touch()
    for one, two in (
        (tmp_path / "missing", key),
        (chain, tmp_path / "missing"),
        (chain, other),
        (chain, locked),
        (empty, key),
    ):
        with pytest.raises(StartError, match="cannot be used"):
            Certificate(one, two)


def _folder(path: Path) -> Path:
    path.mkdir()
    return path
