"""Where this machine's packages come from, for workspaces that install some. The standard library only."""

import ipaddress
import shutil
import socket
import subprocess
import sys

_ASK = "from pip._internal.models.index import PyPI; print(PyPI.netloc, PyPI.file_storage_domain)"


def networks() -> str:
    """For PROCESS_ALLOW: the index's addresses that are not on the public internet, as where a mirror has its name."""
    found = set()
    for host in _hosts():
        try:
            told = socket.getaddrinfo(host, 443, type=socket.SOCK_STREAM)
        except OSError:
            continue
        found |= {ipaddress.ip_address(address[0]) for *_, address in told}
    return ",".join(sorted(str(ipaddress.ip_network(address)) for address in found if not address.is_global))


def _hosts() -> list[str]:
    """As pip knows them, which this Python or the machine's has."""
    for python in filter(None, (sys.executable, shutil.which("python3"), "/usr/bin/python3")):
        try:
            asked = subprocess.run([python, "-c", _ASK], capture_output=True, text=True, timeout=60, check=False)
        except OSError:
            continue
        if asked.returncode == 0:
            return asked.stdout.split()
    return []
