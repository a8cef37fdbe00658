"""A coordinator is killed at every kind of moment of a workspace's life, one after the other, and nothing is lost.

There are always two: whoever leads dies at the first point whose label nobody has died at yet, the other one takes
over, and a new one stands by. Cycle follows cycle until a whole one has passed without a new label.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.crash.cycle import person
from tests.crash.herd import Coordinator, Nursery, herd_of
from tests.crash.site import Site, process_site

MOST_CYCLES = 40


async def passes(site: Site, nursery: Nursery) -> list[str]:
    """The labels, in the order in which somebody died at them."""
    used = site.folder / "used"
    used.touch()

    async def start() -> Coordinator:
        return await nursery.start(site.environment, site.folder / "log", used=str(used))

    async with herd_of(2, start) as herd:
        for _ in range(MOST_CYCLES):
            before = used.read_text()
            async with person(site) as somebody:
                await somebody.run()
            assert not herd.failures, herd.failures[0]
            if used.read_text() == before:
                break
        else:
            pytest.fail(f"there was always a new label: {used.read_text().splitlines()[-1]}")
    labels = used.read_text().splitlines()
    assert herd.deaths == len(labels)
    return labels


@pytest.mark.timeout(1200)
async def test_processes(
    folder: Path, database: str, server_redis: str, nursery: Nursery, tell: Callable[[str], None]
) -> None:
    async with process_site(folder, database, server_redis) as site:
        labels = await passes(site, nursery)
    tell(f"killed at {len(labels)} points")
    assert any("jobs.archive" in label for label in labels)
