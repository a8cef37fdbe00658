"""A few threads for what waits on the disk, on locks or on processes to end; a cancelled caller leaves it to finish."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class Threads:
    """Separate from the loop's own, so that slow removals never hold up anything else."""

    def __init__(self, most: int = 16) -> None:
        self._pool = ThreadPoolExecutor(most, thread_name_prefix="process-driver")

    async def run(self, work: Callable[P, T], *arguments: P.args, **more: P.kwargs) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, lambda: work(*arguments, **more))

    def close(self) -> None:
        self._pool.shutdown(wait=False)
