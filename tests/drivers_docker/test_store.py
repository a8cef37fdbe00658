"""How jobs reach a real S3 server, wherever on this machine it listens; and that people are told what that means."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from codehub.drivers.archives import ArchiveStore
from codehub.drivers.docker import DockerDriver
from codehub.model.names import archive_key, job_name
from codehub.model.observation import ArchiveSeen, JobState
from tests.contract.s3 import S3Server, machine_address
from tests.drivers_docker.conftest import make_home, new_op
from tests.drivers_docker.test_jobs import ended
from tests.lab.docker import Lab
from tests.support import short_folder


@pytest.fixture(params=["loopback", "address"])
def server(request: pytest.FixtureRequest) -> Iterator[S3Server]:
    with ExitStack() as stack:
        address = "127.0.0.1" if request.param == "loopback" else stack.enter_context(machine_address())
        made = S3Server(short_folder(), address=address)
        stack.callback(made.close)
        made.start()
        yield made


async def test_a_job_reaches_it_and_what_else_it_could_reach_is_said(lab: Lab, server: S3Server) -> None:
    store = ArchiveStore.open(server.url, s3=server.options)
    with lab.installation() as options:
        driver = DockerDriver(options, store.job_urls)
        await driver.prepare()
        said = " ".join(driver.isolation())
        home, op_id = await make_home(driver), new_op()
        await driver.jobs.archive(home.id, op_id, home.volume)
        made = lab.call("GET", f"/containers/{job_name(op_id)}/json").json()["HostConfig"]["NetworkMode"]
        job = await ended(driver, home.id, op_id)
        await driver.close()
    assert job.state is JobState.SUCCEEDED, job
    assert await store.verify(archive_key(home.id, op_id)) is ArchiveSeen.VERIFIED
    assert server.endpoint in said
    if server.address == "127.0.0.1":
        assert made == "host"
        assert "WARNING: storage jobs share this machine's network, because" in said
    else:
        assert made == options.job_network
        assert "and nothing else" in said
        assert "WARNING" not in said
