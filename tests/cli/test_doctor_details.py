"""What `codehub doctor` learns of a server that runs: one that tells its details to others only, one with TLS."""

import json
from pathlib import Path

from codehub.cli.checks import remote
from codehub.services.doctor.finding import State
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


def _told(status: str) -> bytes:
    return json.dumps({"status": status, "dependencies": {}}).encode()
