"""The client that a bare machine has, against a server of the library that CodeHub itself uses."""

import threading
from collections.abc import Iterator

import pytest
from websockets.sync.server import ServerConnection, serve

from tests.bare.websocket import Line


@pytest.fixture
def port() -> Iterator[int]:
    """It pings, says everything back, in two fragments, and ends at `end`."""

    def echo(connection: ServerConnection) -> None:
        for text in connection:
            connection.ping()
            assert isinstance(text, str)
            if text == "end":
                return
            connection.send([text[:3], text[3:]])

    with serve(echo, "127.0.0.1", 0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.socket.getsockname()[1]
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("size", [4, 125, 126, 65535, 65536, 300_000])
def test_a_message_of_any_size_there_and_back(port: int, size: int) -> None:
    line = Line(port, "localhost", "/", "a=b", 10)
    line.send("é" * (size // 2))
    assert line.receive() == "é" * (size // 2)
    line.close()


def test_an_end_is_told(port: int) -> None:
    line = Line(port, "localhost", "/", "", 10)
    line.send("end")
    with pytest.raises(ConnectionError, match="it was closed"):
        line.receive()
    line.close()
