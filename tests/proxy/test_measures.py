"""What /metrics says of the proxy is what has happened."""

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest

from codehub.web.proxy.limits import Limits
from codehub.web.proxy.ports import Decision, Request, Route
from tests.proxy.test_websockets import UPGRADE, sockets
from tests.proxy.world import GONE, WORKSPACE, Peer, PlainGate, ok, proxy, upstream
from tests.support import eventually


def kinds(peer: Peer) -> None:
    while True:
        head = peer.head()
        if b"upgrade: websocket" in head:
            peer.unread = head + peer.unread
            sockets(peer)
        elif b"/missing" in head:
            peer.send(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
        else:
            ok(peer)


def test_connections_answers_and_waits_are_counted() -> None:
    registry = CollectorRegistry()
    with upstream(kinds) as there:
        workspace, api = Route("one", there.address, WORKSPACE), Route("api", there.address)

        def choose(request: Request) -> Decision:
            known: dict[bytes, Decision] = {b"/gone": GONE, b"/api": api}
            return known.get(request.target, workspace)

        limits = Limits(connections_per_address=2, drain_seconds=0.1, tunnel_seconds=0.1)
        with proxy(PlainGate(workspace, choose=choose), limits, registry=registry) as here:

            def count(name: str, **labels: str) -> float | None:
                return registry.get_sample_value(f"codehub_proxy_{name}", labels)

            socket, peer = here.connect(), here.connect()
            socket.send(UPGRADE)
            socket.head()
            for target in (b"/", b"/", b"/missing", b"/api", b"/gone"):
                peer.send(b"GET %b HTTP/1.1\r\nHost: a\r\n\r\n" % target)
                peer.answer()
            assert here.connect().answer()[0] == 503
            eventually(lambda: count("connections", kind="http") == 1, "who was turned away has gone")
            assert count("connections", kind="websocket") == 1
            assert count("turned_away_total") == 1
            assert count("answers_total", by="workspace", status="1xx") == 1
            assert count("answers_total", by="workspace", status="2xx") == 2
            assert count("answers_total", by="workspace", status="4xx") == 1
            assert count("answers_total", by="api", status="2xx") == 1
            assert count("answers_total", by="proxy", status="5xx") == 1
            assert count("wait_seconds_count") == 5, "who waited for a connection, and who did not"
            assert count("wait_seconds_bucket", le="10.0") == 5
            assert b"codehub_proxy_wait_seconds_sum" in generate_latest(registry)
            peer.close()
            socket.close()
            eventually(lambda: count("connections", kind="http") == count("connections", kind="websocket") == 0, "0")
