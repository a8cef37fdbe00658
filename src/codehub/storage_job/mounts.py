"""What is mounted inside a home, which is not part of it: other disks, and other folders of the same disk."""

import os
import re
from pathlib import Path

_ESCAPED = re.compile(rb"\\([0-7]{3})")


def mount_id(fd: int) -> str:
    """Which mount a file was reached through: a subvolume of btrfs has its own device, but is no mount."""
    lines = Path(f"/proc/self/fdinfo/{fd}").read_text().splitlines()
    return next((line for line in lines if line.startswith("mnt_id")), "")


def has_mounts(root_fd: int) -> bool:
    """Whether anything is mounted below this folder. Asking once is cheap, asking for each file is not."""
    root = os.fsencode(Path(f"/proc/self/fd/{root_fd}").readlink()).rstrip(b"/") + b"/"
    lines = Path("/proc/self/mountinfo").read_bytes().splitlines()
    points = (_ESCAPED.sub(lambda found: bytes([int(found[1], 8)]), line.split()[4]) for line in lines)
    return any(point.startswith(root) for point in points)
