"""How much room is left on the disks that this process can see."""

import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import unquote, urlsplit

from codehub.model.disk import DiskSpace
from codehub.services.doctor import codes
from codehub.services.doctor.finding import Finding, failed, ok, warning

LEAST_BYTES = 2 << 30
_HOMES = "workspaces"  # of processes, in a data directory


def room(folder: Path, *, least: int = LEAST_BYTES, reserve: int | None = None) -> Finding:
    """`reserve`: what is kept free of homes, where they are below this folder (PROCESS_DISK_RESERVE)."""
    homes = folder / _HOMES
    if homes.is_dir() and (shortage := DiskSpace.of(os.statvfs(homes)).shortage(reserve)) is not None:
        told = f"{shortage.message} No workspace is started."
        return failed(codes.RESERVE, told, f"Make room on the disk of {homes}.")
    free = shutil.disk_usage(folder).free
    if free < least:
        told = f"Only {free >> 20} MiB are free at {folder}."
        return warning(codes.DISK, told, "Make room: homes and databases grow.")
    return ok(codes.DISK.check, f"{free >> 30} GiB free")


def rooms(folders: Iterable[Path], *, least: int = LEAST_BYTES, reserve: int | None = None) -> list[Finding]:
    """Of each disk that one of these is on: those that are almost full, or one line for all."""
    disks = {folder.stat().st_dev: folder for folder in folders if folder.is_dir()}
    found = [room(folder, least=least, reserve=reserve) for folder in disks.values()]
    return [one for one in found if one.code is not None] or found[:1]


def store_folders(store_url: str | None) -> list[Path]:
    """Where archives are, if that is a folder."""
    parts = urlsplit(store_url or "")
    return [Path(unquote(parts.path))] if parts.scheme == "file" else []
