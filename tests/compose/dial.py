"""What an S3 server says to somebody without a key: `python3 dial.py HOST` prints it as JSON. Standard library only.

Every port is tried. An open one may speak gRPC, in clear text or over TLS; a gRPC server greets at once.
"""

import http.client
import json
import socket
import ssl
import sys
from contextlib import suppress

S3_PORT = 8333
PORTS = range(1, 65536)
_SECONDS = 2.0
_HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
_SETTINGS = 4  # the type of the frame that a server of HTTP/2 begins with


def open_ports(host: str) -> list[int]:
    return [port for port in PORTS if is_open(host, port)]


def is_open(host: str, port: int) -> bool:
    with socket.socket() as line:
        line.settimeout(_SECONDS)
        return line.connect_ex((host, port)) == 0


def speaks_grpc(host: str, port: int, *, tls: bool) -> bool:
    with suppress(OSError), socket.create_connection((host, port), _SECONDS) as line:
        if not tls:
            return _greets(line)
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.set_alpn_protocols(["h2"])
        with context.wrap_socket(line, server_hostname=host) as inside:
            return _greets(inside)
    return False


def _greets(line: socket.socket) -> bool:
    line.sendall(_HELLO)
    said = b""
    while len(said) < 4:
        more = line.recv(64)
        if not more:
            return False
        said += more
    return said[3] == _SETTINGS


def answers_of_s3(host: str) -> list[int]:
    """To somebody who lists buckets, looks into one, and writes."""
    found = []
    for method, path in (("GET", "/"), ("GET", "/codehub"), ("PUT", "/codehub/from-nobody")):
        connection = http.client.HTTPConnection(host, S3_PORT, timeout=10)
        connection.request(method, path, body=b"x" if method == "PUT" else None)
        found.append(connection.getresponse().status)
        connection.close()
    return found


def dial(host: str) -> dict[str, list[int]]:
    there = open_ports(host)
    return {
        "open": there,
        "grpc": [port for port in there if any(speaks_grpc(host, port, tls=tls) for tls in (False, True))],
        "s3": answers_of_s3(host),
    }


if __name__ == "__main__":
    print(json.dumps(dial(sys.argv[1])))  # noqa: T201
