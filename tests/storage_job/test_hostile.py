"""Archives that mean harm are refused as Corrupted, and nothing outside the volume is touched."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import zstandard

from codehub.storage_job.marker import ATTRIBUTE
from codehub.storage_job.protocol import Corrupted, Exit
from codehub.storage_job.tarparse import parse_name
from tests.storage_job.homes import snapshot
from tests.storage_job.hostile import FOLDER, Hostile, make_hostile_archives, meta_of, squeezed, tar_of
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
    request = put(place.archives[number], store_of(place), volume)
    beside = {path.name for path in place.folder.iterdir()}
    with pytest.raises(Corrupted, match=r"."):
        run_here(request)
    assert snapshot(outside) == before
    assert (outside / "kept").stat().st_nlink == 1
    assert {path.name for path in place.folder.iterdir()} == beside
    assert ATTRIBUTE not in os.listxattr(volume)


@pytest.mark.parametrize(
    "name", [b"/", b"/a", b"//a", b"a//b", b"..", b"../a", b"a/..", b"a/../b", b"a/./b", b"./../a", b"a\0b", b"", b"//"]
)
def test_a_name_that_leads_elsewhere(name: bytes) -> None:
    """Refused before anything is opened, although opening would fail as well."""
    with pytest.raises(Corrupted):
        parse_name(name)


def test_a_restore_that_failed_takes_the_older_note_away(place: Place) -> None:
    """Else the older operation, run again, would find its note on what is left."""
    volume = place.folder / "noted"
    volume.mkdir()
    os.setxattr(volume, ATTRIBUTE, b"an older operation")
    request = put(place.archives[NAMES.index("less content than declared")], store_of(place), volume)
    with pytest.raises(Corrupted):
        run_here(request)
    assert ATTRIBUTE not in os.listxattr(volume)


def test_the_drivers_notes_are_not_an_archives_to_change(place: Place, tmp_path: Path) -> None:
    """Neither written into an archive nor taken from one: they say which volume this is."""
    note = "user.codehub.incarnation"
    volume, home = place.folder / "note", tmp_path / "home"
    for folder in (volume, home):
        folder.mkdir()
        os.setxattr(folder, note, b"7")
    archived = store_of(place).request("archive", home)
    run_here(archived)
    packed = Path(archived["archive_url"].removeprefix("file://")).read_bytes()
    assert note.encode() not in zstandard.ZstdDecompressor().decompressobj().decompress(packed)
    evil = squeezed(tar_of(("./", b"", {**FOLDER, "pax_headers": {f"SCHILY.xattr.{note}": "8"}})))
    run_here(put(Hostile("", evil, meta_of(evil)), store_of(place), volume))
    assert os.getxattr(volume, note) == b"7"


def test_the_driver_is_told(place: Place) -> None:
    """The same through the real program, where it says Corrupted with its exit code."""
    volume = place.folder / "told"
    volume.mkdir()
    request = put(place.archives[NAMES.index("bit flipped")], store_of(place), volume)
    got = run(request)
    assert got.code == Exit.CORRUPTED
    assert (got.result["state"], got.result["reason"]) == ("failed", "ArchiveCorrupted")


def store_of(place: Place) -> Store:
    return Store((place.folder / "store").as_uri())


def put(hostile: Hostile, store: Store, volume: Path) -> dict[str, Any]:
    request = store.request("restore", volume, limits=hostile.limits)
    target = Path(request["archive_url"].removeprefix("file://"))
    target.parent.mkdir(parents=True)
    target.write_bytes(hostile.archive)
    if hostile.meta is not None:
        target.with_name(target.name + ".meta").write_bytes(hostile.meta)
    return request
