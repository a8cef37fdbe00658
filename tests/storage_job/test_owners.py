"""Owners and groups come back, whatever the volume's own are."""

import os
import subprocess
from pathlib import Path

from codehub.storage_job.protocol import Exit
from tests.storage_job.homes import snapshot
from tests.storage_job.job import COMMAND, Store, done, restored_from, run
from tests.support import needs_root, skip


def test_a_volume_that_hands_its_group_down(tmp_path: Path) -> None:
    """As Kubernetes makes them for an fsGroup: what is made in it must not keep that group."""
    needs_root("who alone restores owners")
    home, volume = tmp_path / "home", tmp_path / "volume"
    (home / "folder").mkdir(parents=True)
    for path in (home / "file", home / "folder" / "file"):
        path.write_text("of root's group")
    (home / "link").symlink_to("file")
    volume.mkdir()
    os.chown(volume, 0, 1000)
    volume.chmod(0o2775)
    request = Store((tmp_path / "store").as_uri()).request("archive", home)
    done(request)
    done(restored_from(request, volume))
    assert snapshot(volume) == snapshot(home)


def test_an_owner_that_this_machine_does_not_have_is_no_damage(tmp_path: Path) -> None:
    """A user namespace has only some numbers: that is said, and the archive is not called corrupted for it."""
    become = ["unshare", "--user", "--map-root-user"]
    needs_root("who can make files of two owners")
    if subprocess.run([*become, "true"], capture_output=True, check=False).returncode:
        skip("user namespaces", "sysctl user.max_user_namespaces=10000")
    home, volume = tmp_path / "home", tmp_path / "volume"
    home.mkdir()
    volume.mkdir()
    (home / "file").write_text("somebody's")
    os.chown(home / "file", 4242, 4242)
    request = Store((tmp_path / "store").as_uri()).request("archive", home)
    done(request)
    got = run(restored_from(request, volume), [*become, *COMMAND])
    assert (got.code, got.result["reason"]) == (Exit.RETRY, "ActionFailed")
    assert "4242" in got.result["message"]
    assert "file" in got.result["message"]
