"""What counts as a sign of use: everything but what an open tab was seen to say by itself."""

import os
import struct
from random import Random

import pytest

from codehub.web.proxy.activity import FrameScanner, is_request_activity
from tests.proxy.world import Peer, through

TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10
# Of VS Code's protocol: a type, an id, what was received so far, a length.
KEEP_ALIVE, ACKNOWLEDGED = struct.pack(">BIII", 9, 0, 861, 0), struct.pack(">BIII", 3, 0, 703, 0)
MESSAGE = struct.pack(">BIII", 1, 862, 703, 5) + b"\x05\0\0\0_"


def frame(opcode: int, content: bytes, *, masked: bool, compressed: bool = False, first: int = 0x80) -> bytes:
    size = len(content)
    mask = os.urandom(4) if masked else b"\0\0\0\0"
    head = bytes([first | (0x40 if compressed else 0) | opcode])
    bit = 0x80 if masked else 0
    if size < 126:
        head += bytes([bit | size])
    elif size < 1 << 16:
        head += bytes([bit | 126]) + struct.pack(">H", size)
    else:
        head += bytes([bit | 127]) + struct.pack(">Q", size)
    covered = bytes(byte ^ mask[number % 4] for number, byte in enumerate(content))
    return head + (mask if masked else b"") + covered


@pytest.mark.parametrize("masked", [False, True], ids=["from the server", "from the browser"])
@pytest.mark.parametrize(
    ("opcode", "content", "counts"),
    [
        (BINARY, KEEP_ALIVE, False),
        (BINARY, ACKNOWLEDGED, False),
        (BINARY, MESSAGE, True),
        (BINARY, struct.pack(">BIII", 1, 862, 703, 0), True),
        (BINARY, b"thirteen byte", True),
        (TEXT, b"x", True),
        (TEXT, b"", False),
        (TEXT, b'["stdin", "a"]', True),
        (BINARY, bytes(200), True),
        (BINARY, bytes(70_000), True),
        (PING, b"", False),
        (PING, bytes(125), False),
        (PONG, b"x", False),
        (CLOSE, b"\x03\xe9", False),
    ],
)
def test_a_message(opcode: int, content: bytes, counts: bool, masked: bool) -> None:
    assert FrameScanner().feed(frame(opcode, content, masked=masked)) is counts


def test_compressed_messages_count_whatever_they_hold() -> None:
    assert FrameScanner().feed(frame(BINARY, KEEP_ALIVE, masked=True, compressed=True))


@pytest.mark.parametrize("seed", range(20))
def test_frames_are_recognised_however_they_are_cut(seed: int) -> None:
    """A message between hours of silence is seen, and silence is not taken for messages."""
    random = Random(seed)
    silent = [(BINARY, KEEP_ALIVE), (BINARY, ACKNOWLEDGED), (PING, b""), (PONG, bytes(100)), (TEXT, b"")]
    messages = [(BINARY, bytes(random.randrange(14, 300))), (BINARY, bytes(70_000)), (TEXT, b"a")]
    for is_used in (False, True):
        frames = [random.choice(silent) for _ in range(50)]
        if is_used:
            frames.insert(random.randrange(51), random.choice(messages))
        stream = b"".join(frame(opcode, content, masked=random.random() < 0.5) for opcode, content in frames)
        scanner, counted, at = FrameScanner(), 0, 0
        while at < len(stream):
            size = random.choice((1, 2, 3, 7, 64, 5000))
            counted += scanner.feed(stream[at : at + size])
            at += size
        assert counted == is_used


@pytest.mark.parametrize("prefix", ["", "/w/2159fa78-a545-41ed-84d0-227a838b1818"])
@pytest.mark.parametrize(
    ("method", "target", "counts"),
    [
        ("GET", "/api/kernels?1794770074417", False),
        ("GET", "/api/terminals?1794770074423", False),
        ("GET", "/api/sessions?1794770074424", False),
        ("GET", "/lab/api/workspaces?1794770074424", False),
        ("GET", "/api/me?1794770115405", False),
        ("GET", "/api/kernelspecs?1794770115407", False),
        ("GET", "/api/contents?content=1&hash=0&1794770076588", False),
        ("GET", "/api/contents/some/folder?content=1&hash=0&1794770076588", False),
        ("PUT", "/lab/api/workspaces/default?1794770077124", False),
        ("GET", "/api/events/subscribe", False),
        # A person, or a program of one:
        ("GET", "/", True),
        ("GET", "/lab", True),
        ("GET", "/api/kernels", True),
        ("GET", "/api/contents/notes.txt?type=file&content=1&hash=1&format=text&1794770076588", True),
        ("GET", "/api/contents?content=1&hash=0", True),
        ("PUT", "/api/contents/notes.txt?1794770076588", True),
        ("POST", "/api/terminals?1794770074423", True),
        ("POST", "/api/sessions?1794770074423", True),
        ("DELETE", "/api/kernels?1794770074417", True),
        ("PATCH", "/api/contents/untitled.txt?1794770076588", True),
        ("GET", "/api/kernels/7f/channels?session_id=1", True),
        ("GET", "/terminals/websocket/1", True),
        ("GET", "/files/api/kernels?x", True),
        ("GET", "/static/app.js", True),
    ],
)
def test_a_request(method: str, target: str, counts: bool, prefix: str) -> None:
    assert is_request_activity(method.encode(), f"{prefix}{target}".encode()) is counts


def _answers(peer: Peer) -> None:
    while True:
        head = peer.head()
        if b"upgrade: websocket" in head.lower():
            peer.send(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
            peer.send(peer.exactly(7))
        else:
            peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]")


@pytest.mark.parametrize(("path", "counts"), [(b"/api/kernels?17", False), (b"/api/kernels", True)])
def test_a_request_on_its_way_through(path: bytes, counts: bool) -> None:
    with through(_answers) as (proxy, _):
        assert proxy.ask(b"GET %b HTTP/1.1\r\nHost: x\r\n\r\n" % path)[2] == b"[]"
        assert (proxy.gate.only.used_at > 0) is counts


def test_of_a_forwarded_port_everything_counts() -> None:
    with through(_answers) as (proxy, _):
        proxy.gate.only.port = 5000
        assert proxy.ask(b"GET /api/kernels?17 HTTP/1.1\r\nHost: x\r\n\r\n")[2] == b"[]"
        assert proxy.gate.only.used_at > 0


@pytest.mark.parametrize(("path", "counts"), [(b"/api/events/subscribe", False), (b"/terminals/websocket/1", True)])
def test_a_websocket_on_its_way_through(path: bytes, counts: bool) -> None:
    with through(_answers) as (proxy, _):
        peer = proxy.connect()
        fields = b"Host: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
        peer.send(b"GET %b HTTP/1.1\r\n%bSec-WebSocket-Key: %b\r\n\r\n" % (path, fields, b"A" * 22 + b"=="))
        assert peer.head().startswith(b"HTTP/1.1 101 ")
        proxy.gate.only.used_at = 0.0
        message = frame(TEXT, b"x", masked=True)
        peer.send(message)
        assert peer.exactly(7) == message
        assert (proxy.gate.only.used_at > 0) is counts
