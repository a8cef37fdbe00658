"""Archives that mean harm are refused as Corrupted, and nothing outside the volume is touched."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from codehub.storage_job.marker import ATTRIBUTE
from codehub.storage_job.protocol import Corrupted, Exit
from tests.storage_job.homes import snapshot
from tests.storage_job.hostile import Hostile, make_hostile_archives
from tests.storage_job.job import Store, run, run_here

NAMES = [hostile.name for hostile in make_hostile_archives("/outside")]


@dataclass
class Place:
    """A folder with something precious in it beside the volumes, and archives that are after it."""

    folder: Path
    archives: list[Hostile]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("hostile")
    outside = folder / "outside"
    outside.mkdir()
    (outside / "kept").write_text("kept")
    (folder / "store").mkdir()
    before = snapshot(outside)
    yield Place(folder, make_hostile_archives(str(outside)))
    assert snapshot(outside) == before


@pytest.mark.parametrize("number", range(len(NAMES)), ids=NAMES)
def test_is_refused(number: int, place: Place) -> None:
    outside, volume = place.folder / "outside", place.folder / f"volume-{number}"
    volume.mkdir()
    before = snapshot(outside)
    request = put(place.archives[number], Store((place.folder / "store").as_uri()), volume)
    beside = {path.name for path in place.folder.iterdir()}
    with pytest.raises(Corrupted, match=r"."):
        run_here(request)
    assert snapshot(outside) == before
    assert (outside / "kept").stat().st_nlink == 1
    assert {path.name for path in place.folder.iterdir()} == beside
    assert ATTRIBUTE not in os.listxattr(volume)


def test_the_driver_is_told(place: Place) -> None:
    """The same through the real program, where it says Corrupted with its exit code."""
    volume = place.folder / "told"
    volume.mkdir()
    request = put(place.archives[NAMES.index("bit flipped")], Store((place.folder / "store").as_uri()), volume)
    got = run(request)
    assert got.code == Exit.CORRUPTED
    assert (got.result["state"], got.result["reason"]) == ("failed", "ArchiveCorrupted")


def put(hostile: Hostile, store: Store, volume: Path) -> dict[str, Any]:
    request = store.request("restore", volume, limits=hostile.limits)
    target = Path(request["archive_url"].removeprefix("file://"))
    target.parent.mkdir(parents=True)
    target.write_bytes(hostile.archive)
    if hostile.meta is not None:
        target.with_name(target.name + ".meta").write_bytes(hostile.meta)
    return request
