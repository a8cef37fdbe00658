"""What waiting for changes costs: nothing that grows with the number of workspaces."""

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from typing import Any, cast

from codehub.drivers.process.layout import Layout
from codehub.drivers.process.watch import changes
from tests.support import short_folder


async def test_records_are_read_after_a_change_and_not_all_the_time() -> None:
    layout = Layout(short_folder() / "w")
    layout.prepare()
    reads = 0

    def pids() -> list[int]:
        nonlocal reads
        reads += 1
        return []

    async def run(work: Callable[[], Any]) -> Any:
        return work()

    stream = cast("Any", changes(layout, run, pids, poll_seconds=0.01, settling_seconds=0.2))
    async with aclosing(stream):
        told = 0

        async def listen() -> None:
            nonlocal told
            async for _ in stream:
                told += 1

        listening = asyncio.ensure_future(listen())
        for number in (1, 2):
            before = reads, told
            (layout.instances / f"ws-{number}").mkdir()
            await asyncio.sleep(1)  # time has to pass: nothing shows that it stopped reading
            assert reads > before[0]
            assert told > before[1]
            settled = reads
            await asyncio.sleep(0.5)
            assert reads == settled
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)
