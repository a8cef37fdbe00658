"""A wire between the job and an S3 server on which a test sees every byte, and may act before it goes on."""

import select
import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from types import TracebackType
from typing import Self

Watch = Callable[["Wire", bytes], None]


class Wire:
    """Forwards to `port`; `sent` is called with what the job sends, `received` with what it gets, before it goes on."""

    def __init__(
        self,
        port: int,
        sent: Watch | None = None,
        received: Watch | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.bytes_sent = self.bytes_received = 0
        self.is_cut = False  # nothing goes on any more
        self._to = port
        self._sent, self._received = sent, received
        self._tls = tls  # spoken with the job only
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._stopping = threading.Event()
        self._threads = [threading.Thread(target=self._accept, daemon=True)]

    @property
    def endpoint(self) -> str:
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join()
        self._listener.close()

    def _accept(self) -> None:
        while not self._stopping.is_set():
            if select.select([self._listener], [], [], 0.05)[0]:
                near, _ = self._listener.accept()
                self._threads.append(threading.Thread(target=self._forward, args=(near,), daemon=True))
                self._threads[-1].start()

    def _forward(self, near: socket.socket) -> None:
        with near, suppress(OSError), ExitStack() as closing:
            if self._tls:
                near = closing.enter_context(self._tls.wrap_socket(near, server_side=True))
            far = closing.enter_context(socket.create_connection(("127.0.0.1", self._to)))
            while not self._stopping.is_set():
                for ready in select.select([near, far], [], [], 0.05)[0]:
                    data = ready.recv(1 << 16)
                    while isinstance(ready, ssl.SSLSocket) and ready.pending():
                        data += ready.recv(1 << 16)
                    if not data:
                        return
                    self._pass(data, is_sent=ready is near)
                    if self.is_cut:
                        return
                    (far if ready is near else near).sendall(data)

    def _pass(self, data: bytes, *, is_sent: bool) -> None:
        if is_sent:
            self.bytes_sent += len(data)
        else:
            self.bytes_received += len(data)
        if watch := self._sent if is_sent else self._received:
            watch(self, data)
