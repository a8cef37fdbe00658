"""How the S3 server is reached: an authority of one's own, the bucket in the host's name, uploads that are a secret."""

import os
import ssl
import subprocess
from pathlib import Path

import pytest

from codehub.drivers.archive_store.bucket import BucketObjects, S3Options
from codehub.drivers.archive_store.objects import Limits
from codehub.storage_job import s3
from codehub.storage_job.protocol import BadRequest, StoreUnreachable
from codehub.storage_job.unfinished import Unfinished
from tests.contract.s3 import ACCESS_KEY, REGION, SECRET_KEY, S3Server
from tests.storage_job.homes import snapshot
from tests.storage_job.job import Store, done, restored_from, run_here
from tests.storage_job.test_s3 import MIB, port_of, server, store_at, volume
from tests.storage_job.wire import Wire
from tests.support import missing

__all__ = ["server", "volume"]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `ca.pem`, which no system trusts, and a certificate for 127.0.0.1 by it."""
    folder = tmp_path_factory.mktemp("authority")
    key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2"
    made = "-keyout key.pem -out request.pem -subj /CN=server"
    commands = [
        f"req -x509 {key} -keyout ca-key.pem -out ca.pem -subj /CN=authority",
        f"req {key} {made}",
        "x509 -req -in request.pem -CA ca.pem -CAkey ca-key.pem -CAcreateserial -days 2 -extfile names -out server.pem",
    ]
    (folder / "names").write_text("subjectAltName=IP:127.0.0.1\nbasicConstraints=CA:FALSE\n")
    for command in commands:
        try:
            subprocess.run(["openssl", *command.split()], cwd=folder, check=True, capture_output=True)
        except FileNotFoundError:
            missing("the program openssl", "apt install openssl")
    return folder


def test_an_authority_of_ones_own(server: S3Server, authority: Path, volume: Path, tmp_path: Path) -> None:
    """As S3_CA_FILE gives it to the job: used by obstore, and for what obstore cannot do."""
    home = tmp_path / "home"
    home.mkdir()
    (home / "large").write_bytes(os.urandom(s3.PART + MIB))  # more than one part, so that uploads are listed too
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(authority / "server.pem", authority / "key.pem")
    with Wire(port_of(server), tls=tls) as wire:
        options = S3Options(wire.endpoint, ACCESS_KEY, SECRET_KEY, region=REGION, ca_file=authority / "ca.pem")
        given = dict(BucketObjects("codehub", options, Limits()).job_options)
        assert "BEGIN CERTIFICATE" in str(given["root_certificate"])
        store = Store(store_at(wire.endpoint).base, given | {"retry_seconds": 1})
        request = store.request("archive", home)
        done(request)
        done(restored_from(request, volume))
        assert snapshot(volume) == snapshot(home)
        unknown = {name: value for name, value in store.options.items() if name != "root_certificate"}
        with pytest.raises(StoreUnreachable):
            run_here({**request, "store": unknown})
        with pytest.raises(BadRequest):
            run_here({**request, "store": {**unknown, "root_certificate": "no certificate"}})


def test_where_the_bucket_is() -> None:
    """Beside the host or in its name, as the driver and obstore have it."""
    for options, base in (
        ({"endpoint": "http://store:9000/"}, "http://store:9000/bucket"),
        ({"endpoint": "https://bucket.store", "virtual_hosted_style_request": True}, "https://bucket.store"),
        ({"region": "eu-west-1"}, "https://s3.eu-west-1.amazonaws.com/bucket"),
        ({"region": "eu-west-1", "virtual_hosted_style_request": True}, "https://s3.eu-west-1.amazonaws.com/bucket"),
    ):
        assert Unfinished.of("bucket", "key", options).base == base


def test_uploads_that_may_not_be_listed_are_no_reason_to_fail(server: S3Server) -> None:
    options = {**store_at(server.endpoint).options, "secret_access_key": "wrong"}
    assert Unfinished.of("codehub", "key", options).abort() == 0
    assert Unfinished.of("codehub", "key", {"endpoint": server.endpoint}).abort() == 0, "without keys nobody is asked"
    assert "wrong" not in repr(Unfinished.of("codehub", "key", options))
