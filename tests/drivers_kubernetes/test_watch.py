"""The watch outlives whatever happens to it, goes on where it was, and tells everybody when it is back."""

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from typing import Any, cast

from codehub.drivers.kubernetes.watch import PodWatch
from tests.drivers_kubernetes.scripted import Answer, Asked, failed, listed, server
from tests.support import eventually_async


def pod(name: str, version: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "resourceVersion": version}}


def changed(name: str, version: str, how: str = "MODIFIED") -> dict[str, Any]:
    return {"type": how, "object": pod(name, version)}


def scripted(*watches: Answer) -> Callable[[Asked], Answer]:
    """One answer after the other for watches; then one that hangs."""
    left = list(watches)

    def answer(asked: Asked) -> Answer:
        if not asked.is_watch:
            return listed(version="100")
        return left.pop(0) if left else Answer(hang=True)

    return answer


async def versions(*watches: Answer) -> list[str]:
    """From which versions it watched, up to the one that hangs."""
    async with server(scripted(*watches)) as (cluster, asked):
        watch = PodWatch(cluster, "x=y")
        with watch.listening(None):

            async def hangs() -> bool:
                return sum(one.is_watch for one in asked) > len(watches)

            await eventually_async(hangs, "the last watch has begun")
        await watch.close()
        return [one.query["resourceVersion"] if one.is_watch else "list" for one in asked]


async def test_it_goes_on_from_the_last_change() -> None:
    assert await versions(Answer(lines=[changed("a", "101"), changed("b", "105")])) == ["list", "100", "105"]


async def test_it_goes_on_from_the_last_bookmark() -> None:
    assert await versions(Answer(lines=[changed("", "140", "BOOKMARK")])) == ["list", "100", "140"]


async def test_a_connection_that_breaks_is_made_again() -> None:
    assert await versions(Answer(lines=[changed("a", "101")], cut=True)) == ["list", "100", "101"]


async def test_a_version_that_is_too_old_is_listed_anew() -> None:
    gone = {"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired"}}
    assert await versions(Answer(lines=[gone])) == ["list", "100", "list", "100"]
    assert await versions(failed(410, "Expired")) == ["list", "100", "list", "100"]


async def test_an_outage_is_waited_for() -> None:
    assert await versions(failed(503), failed(500)) == ["list", "100", "100", "100"]


async def test_everybody_is_woken_when_it_is_back() -> None:
    async with server(scripted(Answer(lines=[changed("a", "101")], cut=True))) as (cluster, _):
        watch = PodWatch(cluster, "x=y")
        told = 0

        async def listen() -> None:
            nonlocal told
            async with aclosing(cast("Any", watch.changes())) as changes:
                async for _ in changes:
                    told += 1

        listening = asyncio.ensure_future(listen())

        async def is_told() -> bool:
            return told >= 2  # of the change, and of the connection that was made again

        await eventually_async(is_told, "it is told twice")
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)
        await watch.close()


async def test_who_waits_for_one_pod_hears_of_that_one() -> None:
    lines = [changed("other", "101"), changed("mine", "102"), changed("other", "103")]
    async with server(scripted(Answer(lines=lines, hang=True))) as (cluster, _):
        watch = PodWatch(cluster, "x=y")
        with watch.listening("mine") as listener:

            async def heard() -> bool:
                return listener.found == pod("mine", "102")

            await eventually_async(heard, "the change of mine")
        await watch.close()
