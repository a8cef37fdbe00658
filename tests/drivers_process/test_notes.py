"""What is on record of instances is read again whenever it may have changed, whatever the clock of the file system."""

import json
import os
import time
from pathlib import Path
from uuid import uuid4

import pytest

from codehub.drivers.process.layout import Layout
from codehub.drivers.process.notes import Notes, note_ready
from codehub.model.workspace import WorkspaceId


def write(file: Path, content: dict[str, object], folder_time: int) -> None:
    """As on a file system that counts in whole seconds, or whose server has another clock."""
    file.write_text(json.dumps(content))
    os.utime(file.parent, (folder_time, folder_time))


@pytest.mark.parametrize("seconds_ago", [1, 0, -60])
def test_a_change_that_the_clock_of_files_does_not_show_is_seen(layout: Layout, seconds_ago: int) -> None:
    workspace_id, when = WorkspaceId(uuid4()), int(time.time()) - seconds_ago
    folder = layout.instance(workspace_id)
    folder.mkdir()
    write(folder / "instance.json", {"op_id": str(uuid4()), "mark": "m"}, when)
    notes = Notes(layout)
    (note,) = notes.all()
    assert (note.workspace_id, note.main) == (workspace_id, None)
    write(folder / "process.json", {"pid": 1, "started": 2, "boot": "b"}, when)
    (note,) = notes.all()
    assert note.main is not None
    assert note.main.pid == 1


def test_what_has_long_been_there_is_not_read_again(layout: Layout) -> None:
    when = int(time.time()) - 60
    folder = layout.instance(WorkspaceId(uuid4()))
    folder.mkdir()
    write(folder / "process.json", {"pid": 1, "started": 2, "boot": "b"}, when)
    write(folder / "instance.json", {"op_id": str(uuid4()), "mark": "m"}, when)
    notes = Notes(layout)
    (before,) = notes.all()
    (after,) = notes.all()
    assert after is before


@pytest.mark.parametrize("can_link", [True, False])
def test_who_is_ready_is_noted_without_a_file_more_where_that_can_be(layout: Layout, can_link: bool) -> None:
    """What is not there cannot get a second name either, as on a file system without such."""
    folder = layout.instance(WorkspaceId(uuid4()))
    folder.mkdir()
    for _ in range(2):
        if can_link:
            (folder / "instance.json").write_text(json.dumps({"op_id": str(uuid4()), "mark": "m"}))
        note_ready(folder)
    assert (folder / "ready").stat().st_nlink == (2 if can_link else 1)
    assert [note.is_ready for note in Notes(layout).all()] == ([True] if can_link else [])
