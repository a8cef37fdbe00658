"""`codehub doctor` on a port that is in use: by somebody, by a CodeHub, by the CodeHub it belongs to."""

import socket
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from codehub.cli.checks import machine
from codehub.services.doctor.finding import State
from codehub.web.proxy.ports import Route
from codehub.web.proxy.tls import Certificate
from tests.cli.site import Shell
from tests.cli.test_doctor import broken, folder, found, shell
from tests.lab.saying import saying
from tests.proxy.test_tls import make as make_certificate
from tests.proxy.world import QUICK, WORKSPACE, Peer, PlainGate, ok, proxy, upstream
from tests.support import free_port

__all__ = ["folder", "shell"]


def test_a_port_in_use(shell: Shell) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        assert "already in use" in broken(shell, "port", CODEHUB_PORT=port)["detail"]


def test_a_port_at_which_a_codehub_answers(shell: Shell) -> None:
    """Where its parts run apart no data directory in use says whose it is."""
    apart = {"DATABASE_URL": f"postgresql://me@127.0.0.1:{free_port()}/db", "REDIS_URL": "redis://127.0.0.1:1/0"}
    with saying(b"ok\n") as url:
        there = {"CODEHUB_HOST": "0.0.0.0", "CODEHUB_PORT": str(urlsplit(url).port)}
        (one,) = found(shell("doctor", "--json", **there, **apart), "port")
        assert (one["state"], one["code"]) == ("warning", "CH-PORT-1")
        assert "a CodeHub answers there" in one["detail"]
        assert "If it is not this one" in one["advice"]
        assert "already in use" in broken(shell, "port", **there)["detail"], "`codehub up` could not have it"
    with saying(b"hello") as url:
        there = {"CODEHUB_PORT": str(urlsplit(url).port)}
        assert "already in use" in broken(shell, "port", **there, **apart)["detail"]


def test_a_port_at_which_a_codehub_answers_with_a_certificate_of_its_own(tmp_path: Path) -> None:
    """It is for the public name, and not asked about: who answers there is the question."""
    certificate = Certificate(*make_certificate(tmp_path, "hub.example"))

    def health(peer: Peer) -> None:
        peer.head()
        ok(peer, b"ok\n")

    with (
        upstream(health) as there,
        proxy(PlainGate(Route("one", there.address, WORKSPACE)), QUICK, tls=certificate) as here,
    ):
        one = machine.port("127.0.0.1", here.port, running=None, is_apart=True, first_process=tmp_path / "none")
    assert one.state is State.WARNING
    assert "a CodeHub answers there" in one.detail


@pytest.mark.parametrize("host", ["a..b", "x" * 70])
def test_a_host_that_cannot_be_a_name(tmp_path: Path, host: str) -> None:
    one = machine.port(host, 8080, running=None, is_apart=True, first_process=tmp_path / "none")
    assert (one.state, "CODEHUB_HOST" in one.advice) == (State.FAILED, True)


@pytest.mark.parametrize(
    ("command", "state"),
    [
        (["/usr/local/bin/python3", "/usr/local/bin/codehub", "api"], State.OK),
        (["/sbin/docker-init", "--", "codehub", "proxy"], State.OK),
        (["/usr/local/bin/python3", "/usr/local/bin/codehub", "coordinator"], State.WARNING),  # has another port
        (["/sbin/init"], State.WARNING),
        (None, State.WARNING),
    ],
)
def test_a_port_of_the_container_of_a_codehub(tmp_path: Path, command: list[str] | None, state: State) -> None:
    """It runs there for as long as there is that container, and with the same settings: the port is its own."""
    first = tmp_path / "cmdline"
    if command is not None:
        first.write_bytes(b"".join(part.encode() + b"\0" for part in command))
    with saying(b"ok\n") as url:
        port = urlsplit(url).port
        assert port is not None
        one = machine.port("127.0.0.1", port, running=None, is_apart=True, first_process=first)
    assert one.state is state
