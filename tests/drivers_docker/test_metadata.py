"""What clouds tell a machine about itself, credentials included, is for the machine: no workspace or job gets there.

The addresses are on a machine beyond this one, and only what comes from the workspaces' bridges is led there. Without
the firewall everything is reached, which the last assertion of each test shows.
"""

import asyncio
from collections.abc import Sequence

from codehub.drivers.docker import DockerDriver, DockerOptions
from codehub.model.workspace import ArchiveKey
from tests.drivers_docker.conftest import FolderStore, JobUrls, make_home
from tests.drivers_docker.surroundings import INTERNET, METADATA, PORT, fetch, outside
from tests.lab.docker import Lab

AZURE, ALIBABA, AMAZON_TASKS, AMAZON_IPV6 = "168.63.129.16", "100.100.100.200", "169.254.170.2", "fd00:ec2::254"
NEVER = (METADATA, AZURE, ALIBABA, AMAZON_TASKS)


def take_down(lab: Lab, options: DockerOptions) -> None:
    delete = ["nft", "delete", "table", "inet", options.table]
    lab.run(lab.guard_image, delete, NetworkMode="host", CapAdd=["NET_ADMIN"])


async def test_no_workspace_reaches_them_even_where_settings_allow_all_around(lab: Lab, store: FolderStore) -> None:
    allow = ("169.254.0.0/16", "100.64.0.0/10", "168.63.128.0/18")
    with lab.installation(allow=allow) as options:
        driver = DockerDriver(options, store.job_urls)
        await driver.prepare()
        address = await (await make_home(driver)).start()
        hosts = (INTERNET, *NEVER)
        with outside(hosts, [options.bridge]):
            assert await fetch(address, INTERNET, PORT) == "open"
            assert await asyncio.gather(*(fetch(address, host, PORT) for host in NEVER)) == ["timeout"] * len(NEVER)
            assert await fetch(address, AMAZON_IPV6, PORT) != "open"
            take_down(lab, options)
            assert await asyncio.gather(*(fetch(address, host, PORT) for host in hosts)) == ["open"] * len(hosts)
        await driver.close()


async def test_no_job_reaches_them_where_the_store_is_anywhere_on_the_internet(lab: Lab) -> None:
    def urls(key: ArchiveKey) -> JobUrls:
        return JobUrls(f"s3://b/{key}", f"s3://b/{key}.meta")

    with lab.installation() as options:
        driver = DockerDriver(options, urls)
        await driver.prepare()
        hosts = (INTERNET, *NEVER)
        with outside(hosts, [options.job_bridge]):
            assert await from_a_job(lab, options, hosts) == ["open", *["timeout"] * len(NEVER)]
            take_down(lab, options)
            assert await from_a_job(lab, options, hosts) == ["open"] * len(hosts)
        await driver.close()


async def from_a_job(lab: Lab, options: DockerOptions, hosts: Sequence[str]) -> list[str]:
    """What connections meet from a container on the jobs' network."""
    program = (
        "import sys; sys.path.insert(0, '/srv'); import asyncio, server\n"
        f"for host in {list(hosts)!r}: print(asyncio.run(server.fetch(host, {PORT})))"
    )
    command = ["python3", "-c", program]
    text = await asyncio.to_thread(lab.run, lab.workspace_image, command, NetworkMode=options.job_network)
    return text.split()
