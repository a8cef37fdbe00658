"""Carries standard input and output through the workspace's way out: the ProxyCommand of ssh (/etc/ssh/ssh_config).

connect.py PROXY_PORT HOST PORT   exits with 1 and one line where the way out refuses
"""

import os
import socket
import sys
import threading

_CHUNK_BYTES = 1 << 16
_HEAD_BYTES = 1 << 14


def opened(proxy: int, host: str, port: str) -> tuple[socket.socket, bytes]:
    """The tunnel, and what came through it already."""
    line = socket.create_connection(("127.0.0.1", proxy))
    name = f"[{host}]" if ":" in host else host
    line.sendall(f"CONNECT {name}:{port} HTTP/1.1\r\nHost: {name}:{port}\r\n\r\n".encode())
    said = b""
    while b"\r\n\r\n" not in said and len(said) < _HEAD_BYTES:
        chunk = line.recv(_CHUNK_BYTES)
        if not chunk:
            sys.exit("The way out of this workspace does not answer.")
        said += chunk
    head, _, rest = said.partition(b"\r\n\r\n")
    status = head.decode("latin-1").split("\r\n")[0].split(" ", 2)
    if status[1:2] != ["200"]:
        sys.exit(f"CodeHub: {' '.join(status[2:]) or 'refused'}")
    return line, rest


def send(line: socket.socket) -> None:
    while chunk := os.read(0, _CHUNK_BYTES):
        line.sendall(chunk)
    line.shutdown(socket.SHUT_WR)


def main(proxy: str, host: str, port: str) -> None:
    line, chunk = opened(int(proxy), host, port)
    threading.Thread(target=send, args=(line,), daemon=True).start()
    while True:
        while chunk:
            chunk = chunk[os.write(1, chunk) :]
        chunk = line.recv(_CHUNK_BYTES)
        if not chunk:
            return


if __name__ == "__main__":
    main(*sys.argv[1:])
