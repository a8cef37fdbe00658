"""How much room is left on the disks that this process can see."""

import shutil
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import unquote, urlsplit

from codehub.services.doctor import codes
from codehub.services.doctor.finding import Finding, ok, warning

LEAST_BYTES = 2 << 30


def room(folder: Path, *, least: int = LEAST_BYTES) -> Finding:
    free = shutil.disk_usage(folder).free
    if free < least:
        told = f"Only {free >> 20} MiB are free at {folder}."
        return warning(codes.DISK, told, "Make room: homes and databases grow.")
    return ok(codes.DISK.check, f"{free >> 30} GiB free")


def rooms(folders: Iterable[Path], *, least: int = LEAST_BYTES) -> list[Finding]:
    """Of each disk that one of these is on: those that are almost full, or one line for all."""
    disks = {folder.stat().st_dev: folder for folder in folders if folder.is_dir()}
    found = [room(folder, least=least) for folder in disks.values()]
    return [one for one in found if one.code is not None] or found[:1]


def store_folders(store_url: str | None) -> list[Path]:
    """Where archives are, if that is a folder."""
    parts = urlsplit(store_url or "")
    return [Path(unquote(parts.path))] if parts.scheme == "file" else []
