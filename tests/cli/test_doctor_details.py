"""What `codehub doctor` learns of a server that runs: one that tells its details to others only, one with TLS."""

import json
from pathlib import Path

from codehub.cli.checks import remote, security
from codehub.model.workspace import InstanceBackend
from codehub.services.doctor.finding import State
from codehub.services.doctor.promises import PROMISES
from codehub.web.proxy.ports import Route
from codehub.web.proxy.tls import Certificate
from tests.lab.saying import saying
from tests.proxy.test_tls import make as make_certificate
from tests.proxy.world import QUICK, WORKSPACE, Peer, PlainGate, ok, proxy, upstream


def test_whether_it_is_ready_is_enough_to_go_by() -> None:
    with saying(_told("ready")) as url:
        first, *_ = remote.server(url)
    assert (first.state, first.detail) == (State.OK, f"{url} is ready")
    with saying(_told("not ready"), 503) as url:
        first, *_ = remote.server(url)
    assert first.state is State.FAILED
    assert "is not ready" in first.detail


def test_the_certificate_of_the_one_that_runs_here_need_not_name_this_machine(tmp_path: Path) -> None:
    certificate = Certificate(*make_certificate(tmp_path, "hub.example"))

    def ready(peer: Peer) -> None:
        peer.head()
        ok(peer, _told("ready"))

    with (
        upstream(ready) as there,
        proxy(PlainGate(Route("one", there.address, WORKSPACE)), QUICK, tls=certificate) as here,
    ):
        url = f"https://127.0.0.1:{here.port}"
        assert remote.server(url, is_here=True)[0].state is State.OK
        (elsewhere,) = remote.server(url)
        assert elsewhere.state is State.FAILED


def test_the_promises_that_a_server_keeps_and_those_that_it_does_not() -> None:
    lines = {
        "process": ["Each workspace has a user id.", "WARNING: system calls of workspaces are not filtered, because x."]
    }
    with saying(_told("ready", isolation={**lines, "docker": []})) as url:
        found = security.of_server(url)
    process = [each for each in found if "filtered" in each.detail or each.state is State.OK]
    assert len(process) == len(PROMISES[InstanceBackend.PROCESS])
    assert [each.state for each in process].count(State.WARNING) == 2, "for workspaces, and for their way out"
    assert "tests/drivers_process/test_escapes.py::test_memory_is_limited" in "".join(each.detail for each in process)
    (docker,) = [each for each in found if each not in process]
    assert docker.state is State.WARNING, "what is not known is not said to hold"


def test_promises_of_a_server_that_tells_others_only() -> None:
    with saying(_told("ready")) as url:
        (only,) = security.of_server(url)
    assert only.state is State.WARNING
    assert "does not tell" in only.detail


def _told(status: str, **more: object) -> bytes:
    return json.dumps({"status": status, "dependencies": {}, **more}).encode()
