import os
import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from codehub.embedded import DataDir, default_data_dir
from codehub.errors import StartError
from tests.embedded.support import holding, is_root, needs_root


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_default_is_where_the_servers_account_can_go() -> None:
    assert default_data_dir() == (Path("/var/lib/codehub") if is_root else Path.home() / ".codehub")


def test_a_new_folder_lets_others_pass_only_where_servers_must(place: Path) -> None:
    with DataDir.open(place / "a" / "b"):
        assert mode_of(place / "a" / "b") == (0o711 if is_root else 0o700)
        assert mode_of(place / "a" / "b" / "secrets") == 0o700
        assert mode_of(place / "a" / "b" / "logs") == 0o700


def test_a_strict_umask_closes_nothing_on_the_way_to_it(place: Path) -> None:
    old = os.umask(0o077)
    try:
        with DataDir.open(place / "new" / "a" / "data"):
            assert [mode_of(place / name) for name in ("new", "new/a")] == [0o755, 0o755]
    finally:
        os.umask(old)


def test_the_mode_of_an_existing_folder_is_left_alone(place: Path) -> None:
    with DataDir.open(place):
        assert mode_of(place) == 0o755


def test_a_second_opener_learns_who_has_it(place: Path) -> None:
    with holding(place / "d", mode="lock") as other:
        other.report()
        with pytest.raises(StartError) as caught:
            DataDir.open(place / "d")
    pid = other.process.pid
    assert caught.value.message == (
        f"Another CodeHub is already running on {place / 'd'} (pid {pid}, http://127.0.0.1:8000)."
    )
    assert "CODEHUB_DATA_DIR" in caught.value.hint


def test_a_killed_holder_leaves_nothing_locked(place: Path) -> None:
    with holding(place / "d", mode="lock") as other:
        other.report()
        other.kill()
        DataDir.open(place / "d").close()


def test_a_second_opener_in_the_same_process_is_refused_too(place: Path) -> None:
    with DataDir.open(place / "d"), pytest.raises(StartError, match=f"pid {os.getpid()}\\)"):
        DataDir.open(place / "d")
    DataDir.open(place / "d").close()


def test_the_lock_is_not_inherited(place: Path) -> None:
    with DataDir.open(place / "d") as data:
        assert not os.get_inheritable(data._lock)


def test_a_file_in_the_way(place: Path) -> None:
    (place / "file").touch()
    for path in (place / "file", place / "file" / "below"):
        with pytest.raises(StartError) as caught:
            DataDir.open(path)
        assert "\n" not in str(caught.value)
        assert str(path) in caught.value.message
        assert "CODEHUB_DATA_DIR" in caught.value.hint


def test_a_folder_with_other_files_is_not_taken(place: Path) -> None:
    (place / "letters.txt").touch()
    with pytest.raises(StartError, match="holds other files"):
        DataDir.open(place)
    assert [entry.name for entry in place.iterdir()] == ["letters.txt"]


def test_a_fresh_volume_and_a_restored_backup_are_taken(place: Path) -> None:
    (place / "lost+found").mkdir()
    (place / ".keep").touch()
    DataDir.open(place).close()
    (place / "lock").unlink()
    DataDir.open(place).close()


@needs_root
@pytest.mark.parametrize("name", ["closed", "closed/new"], ids=["not writable", "not creatable"])
def test_without_permission_it_says_so_in_one_line(place: Path, name: str) -> None:
    (place / "closed").mkdir(mode=0o755)
    with holding(place / name, user="daemon", home=place, mode="lock") as other:
        error = other.report()["error"]
    assert str(place / name) in error
    assert "permission denied" in error
    assert "CODEHUB_DATA_DIR" in error
    assert "\n" not in error


class TestSecrets:
    def test_made_once_and_kept(self, place: Path) -> None:
        with DataDir.open(place / "d") as data:
            first = data.secret("session-key")
        assert len(first) >= 32
        with DataDir.open(place / "d") as data:
            assert data.secret("session-key") == first
            assert data.secret("another") != first

    def test_only_we_can_read_them(self, place: Path) -> None:
        old = os.umask(0)
        try:
            with DataDir.open(place / "d") as data:
                data.secret("key")
        finally:
            os.umask(old)
        assert mode_of(place / "d" / "secrets" / "key") == 0o600

    def test_many_threads_get_the_same(self, place: Path) -> None:
        everybody = threading.Barrier(8)

        def ask(data: DataDir) -> str:
            everybody.wait()
            return data.secret("key")

        with DataDir.open(place / "d") as data, ThreadPoolExecutor(8) as pool:
            assert len(set(pool.map(ask, [data] * 8))) == 1

    def test_an_emptied_one_is_reported_not_replaced(self, place: Path) -> None:
        with DataDir.open(place / "d") as data:
            data.secret("key")
            (place / "d" / "secrets" / "key").write_text("")
            with pytest.raises(StartError, match="is empty"):
                data.secret("key")
        assert (place / "d" / "secrets" / "key").read_text() == ""

    @pytest.mark.parametrize("name", ["", "../lock", "a/b", ".hidden", "Key"])
    def test_a_name_is_no_path(self, place: Path, name: str) -> None:
        with DataDir.open(place / "d") as data, pytest.raises(ValueError, match="not a secret's name"):
            data.secret(name)
