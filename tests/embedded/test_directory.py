"""What a data directory is taken for, by what was noted of it and what it is now."""

import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from codehub.embedded.datadir import DataDir
from codehub.embedded.directory import Directory, Verdict, shared, verdict
from codehub.errors import StartError

OUTSIDE = {"ARCHIVE_URL": "s3://bucket"}
HERE = Directory("id", "/here", (1, 2), "machine", {})


@pytest.mark.parametrize("outside", [{}, OUTSIDE], ids=["alone", "outside"])
def test_one_that_is_where_it_was_is_the_same(outside: Mapping[str, str]) -> None:
    now = replace(HERE, outside=outside)
    assert verdict(now, now) is Verdict.SAME
    assert verdict(replace(now, machine=None), now) is Verdict.SAME, "containers have no name of their machine"
    assert verdict(now, replace(now, machine=None)) is Verdict.SAME


@pytest.mark.parametrize(
    ("now", "alone", "outside"),
    [
        (replace(HERE, path="/there"), Verdict.SAME, Verdict.SAME),
        (replace(HERE, inodes=(3, 4)), Verdict.REPLACED, Verdict.REPLACED),
        (replace(HERE, inodes=(3, 4), path="/there"), Verdict.REPLACED, Verdict.UNSURE),
        (replace(HERE, machine="another"), Verdict.REPLACED, Verdict.UNSURE),
        (replace(HERE, inodes=(3, 4), machine="another"), Verdict.REPLACED, Verdict.UNSURE),
        (replace(HERE, inodes=(3, 4), machine=None), Verdict.REPLACED, Verdict.UNSURE),
    ],
    ids=["renamed", "restored", "moved", "cloned", "restored elsewhere", "in a new container"],
)
def test_one_whose_original_is_not_seen_is_asked_about_only_where_an_original_could_be_harmed(
    now: Directory, alone: Verdict, outside: Verdict
) -> None:
    assert verdict(HERE, now) is alone
    assert verdict(replace(HERE, outside=OUTSIDE), replace(now, outside=OUTSIDE)) is outside


def test_a_copy_beside_its_original_is_asked_about(tmp_path: Path) -> None:
    with DataDir.open(tmp_path / "d") as data:
        Directory.now(data.path, {}).note(data)
        shutil.copytree(tmp_path / "d", tmp_path / "copy")
    noted = Directory.noted(tmp_path / "copy")
    assert noted is not None
    assert verdict(noted, Directory.now(tmp_path / "copy", {})) is Verdict.UNSURE
    (tmp_path / "d" / "directory.json").unlink()
    assert verdict(noted, Directory.now(tmp_path / "copy", {})) is Verdict.REPLACED, "what is there is another one"


def test_what_a_copy_would_share() -> None:
    now = replace(HERE, outside={"ARCHIVE_URL": "s3://other", "REDIS_URL": "redis://r/0"})
    assert shared(replace(HERE, outside={"ARCHIVE_URL": "s3://bucket", "REDIS_URL": "redis://r/0"}), now) == [
        "REDIS_URL"
    ]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"id": 1, "path": "", "inodes": [1], "machine": null}'])
def test_a_damaged_note_is_told(tmp_path: Path, text: str) -> None:
    (tmp_path / "directory.json").write_text(text)
    with pytest.raises(StartError, match="cannot be read"):
        Directory.noted(tmp_path)
