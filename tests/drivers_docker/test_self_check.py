"""What a start finds out about images, before somebody's workspace does."""

from dataclasses import replace

from codehub.drivers.docker import DockerDriver, DockerOptions, WorkspaceImage
from tests.drivers_docker.conftest import FolderStore


async def problems(options: DockerOptions, store: FolderStore) -> list[str]:
    driver = DockerDriver(options, store.job_urls)
    try:
        return await driver.self_check()
    finally:
        await driver.close()


async def test_what_is_there_is_well(options: DockerOptions, store: FolderStore) -> None:
    quick = {"quick": options.images["quick"]}
    assert await problems(replace(options, images=quick, pull=False), store) == []


async def test_an_image_that_nobody_fetches_is_told_with_what_to_do(options: DockerOptions, store: FolderStore) -> None:
    absent = {"absent": WorkspaceImage("codehub/nowhere:1")}
    (said,) = await problems(replace(options, images=absent, pull=False), store)
    assert said == "The engine lacks the image codehub/nowhere:1: build it with `make image`, or pull it."
    assert await problems(replace(options, images=absent, pull=True), store) == [], "it is fetched when it is needed"


async def test_storage_jobs_fetch_nothing(options: DockerOptions, store: FolderStore) -> None:
    (said,) = await problems(replace(options, job_image="codehub/nowhere:1", pull=True), store)
    assert "codehub/nowhere:1" in said


async def test_a_name_that_the_engine_does_not_like_is_no_outage(options: DockerOptions, store: FolderStore) -> None:
    odd = {"odd": WorkspaceImage("registry.example/Team/IDE:1")}
    (said,) = await problems(replace(options, images=odd, pull=False), store)
    assert "registry.example/Team/IDE:1" in said
