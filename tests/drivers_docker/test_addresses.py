"""An address that was one workspace's is not the next one's: who still holds it reaches nobody."""

from ipaddress import IPv4Address, IPv4Network
from itertools import count

from codehub.drivers.docker import DockerDriver
from codehub.drivers.docker.addresses import Addresses
from tests.drivers_docker.conftest import make_home

SMALL = IPv4Network("10.0.0.0/28")
GATEWAY = IPv4Address("10.0.0.1")


async def test_the_next_workspace_does_not_get_the_address_of_the_last(driver: DockerDriver) -> None:
    endpoints = []
    for _ in range(3):
        home = await make_home(driver)
        endpoints.append(await home.start())
        await home.remove()
    assert len(set(endpoints)) == 3


def test_of_those_that_were_given_the_oldest_comes_first() -> None:
    ticks = count()
    addresses = Addresses(lambda: float(next(ticks)))
    given = [addresses.choose(SMALL, {GATEWAY}) for _ in range(13)]
    assert len(set(given)) == 13
    assert GATEWAY not in given
    assert [addresses.choose(SMALL, {GATEWAY}) for _ in range(13)] == given


def test_none_that_is_taken_and_none_when_all_are() -> None:
    left = IPv4Address("10.0.0.7")
    taken = set(SMALL.hosts()) - {left}
    assert Addresses().choose(SMALL, taken) == left
    assert Addresses().choose(SMALL, {*taken, left}) is None


def test_a_large_network_that_is_nearly_full() -> None:
    large = IPv4Network("10.0.0.0/22")
    left = IPv4Address("10.0.2.200")
    assert Addresses().choose(large, set(large.hosts()) - {left}) == left
