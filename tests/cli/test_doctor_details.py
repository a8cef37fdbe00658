"""`codehub doctor --remote` on a server that tells its details to other networks only."""

import json

from codehub.cli.checks import remote
from codehub.services.doctor.finding import State
from tests.lab.saying import saying


def test_whether_it_is_ready_is_enough_to_go_by() -> None:
    with saying(_told("ready")) as url:
        first, *_ = remote.server(url)
    assert (first.state, first.detail) == (State.OK, f"{url} is ready")
    with saying(_told("not ready"), 503) as url:
        first, *_ = remote.server(url)
    assert first.state is State.FAILED
    assert "is not ready" in first.detail


def _told(status: str) -> bytes:
    return json.dumps({"status": status, "dependencies": {}}).encode()
