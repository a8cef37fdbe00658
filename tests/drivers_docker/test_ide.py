"""The image that people get: code-server under the limits of any workspace. `tests/lab/docker.sh ide` builds it."""

import json
from collections.abc import AsyncIterator

import httpx
import pytest

from codehub.drivers.base import InstanceSpec, Resources
from codehub.drivers.docker import DockerDriver, WorkspaceImage
from codehub.model.names import instance_name
from tests.drivers_docker.conftest import FolderStore, Home, make_home, new_op
from tests.lab.docker import Lab
from tests.support import skip

SMALL = Resources(cpus=2.0, memory_bytes=512 << 20, pids=256)


@pytest.fixture(scope="module")
async def ide(lab: Lab, store: FolderStore) -> AsyncIterator[Home]:
    if lab.ide_image is None:
        skip("the image with code-server", "tests/lab/docker.sh ide")
    with lab.installation(images={"code-server": WorkspaceImage(lab.ide_image)}) as options:
        driver = DockerDriver(options, store.job_urls)
        await driver.prepare()
        home = await make_home(driver)
        spec = InstanceSpec(op_id=new_op(), image_ref="code-server", volume=home.volume, resources=SMALL)
        await driver.instances.start(home.id, spec)
        yield home
        await driver.close()


async def test_the_page_is_an_editor(ide: Home) -> None:
    endpoint = (await ide.driver.instances.look(ide.id)).endpoint
    async with httpx.AsyncClient(trust_env=False, timeout=20, follow_redirects=True) as client:
        page = await client.get(f"http://{endpoint}/")
        assert page.status_code == 200
        assert "code-server" in page.text
        assert (await client.get(f"http://{endpoint}/healthz")).status_code == 200


async def test_a_new_home_has_the_settings_of_the_image(lab: Lab, ide: Home) -> None:
    settings = ".local/share/code-server/User/settings.json"
    path = f"/containers/{instance_name(ide.id)}/exec"
    body = {"Cmd": ["cat", settings], "AttachStdout": True, "Tty": True}
    execution = lab.call("POST", path, body).raise_for_status().json()["Id"]
    text = lab.call("POST", f"/exec/{execution}/start", {"Tty": True}).text
    assert json.loads(text)["chat.disableAIFeatures"] is True
