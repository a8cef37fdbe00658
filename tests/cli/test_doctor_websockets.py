"""`codehub doctor --remote` on a CodeHub that runs, with a workspace to try a WebSocket's handshake on."""

from pathlib import Path

from codehub.cli.checks import websockets
from codehub.client import Client
from codehub.services.doctor.finding import State
from tests.cli.codehub import running
from tests.support import eventually

PASSWORD = "correct horse battery"


def test_handshakes_reach_the_proxy(place: Path) -> None:
    with running(place / "d", place / "out", CODEHUB_ADMIN_PASSWORD=PASSWORD) as codehub:
        url = codehub.url.rstrip("/")
        with Client(url) as client:
            client.login("admin", PASSWORD)
            token = client.create_token("doctor").token
            assert websockets.websocket(url, None).state is State.OK, "its own address"
            made = client.create_workspace("w")
            eventually(lambda: client.workspace(made.id).phase == "RUNNING", "it runs", 60)
            one = websockets.websocket(url, token)
            assert one.state is State.OK, one.detail
            client.delete_workspace(made.id, purge=True)
            eventually(lambda: client.workspace(made.id).phase == "DELETED", "it is gone", 60)
