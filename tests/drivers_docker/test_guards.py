"""Guards that were cut off from whoever made them."""

from uuid import uuid4

from codehub.drivers.docker import DockerDriver
from codehub.drivers.docker import spec as bodies
from codehub.drivers.docker.network import left_behind
from tests.drivers_docker.conftest import FolderStore
from tests.lab.docker import Lab


def test_only_old_ones_are_left_behind() -> None:
    listed = [{"Id": "old", "Created": 100}, {"Id": "at work", "Created": 150}]
    assert left_behind(listed, 165.0) == ["old"]


async def test_one_at_work_is_left_alone_and_none_is_left_of_ours(lab: Lab, store: FolderStore) -> None:
    with lab.installation() as options:
        body = bodies.guard_body(options)
        name = f"codehub-guard-{options.mark}-{uuid4().hex[:8]}"
        young = lab.call("POST", "/containers/create", body, name=name).raise_for_status().json()["Id"]
        driver = DockerDriver(options, store.job_urls)
        await driver.prepare()
        await driver.close()
        label = f'{{"label": ["{bodies.LABEL_INSTALLATION}={options.installation}"]}}'
        assert [each["Id"] for each in lab.call("GET", "/containers/json", all=1, filters=label).json()] == [young]
