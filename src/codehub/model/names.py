"""Deterministic names: the same workspace and operation always mean the same container, volume, job and key.

A name depends on immutable ids alone, never on what a user typed, so a rename touches nothing and no two workspaces
can collide. Every name fits Kubernetes' 63 characters.
"""

import re
from dataclasses import dataclass
from uuid import UUID

from codehub.errors import InvalidName
from codehub.model.workspace import ArchiveKey, OpId, WorkspaceId

_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
ARCHIVE_KEY = rf"({_UUID})/({_UUID})/home\.tar\.zst"
_ARCHIVE_KEY = re.compile(ARCHIVE_KEY)

META_SUFFIX = ".meta"


@dataclass(frozen=True, slots=True)
class ArchiveName:
    """The two ids an archive key is made of."""

    workspace_id: WorkspaceId
    op_id: OpId


def instance_name(workspace_id: WorkspaceId) -> str:
    return f"ws-{workspace_id}"


def volume_name(workspace_id: WorkspaceId) -> str:
    return f"ws-{workspace_id}-home"


def job_name(op_id: OpId) -> str:
    return f"ws-job-{op_id}"


def archive_key(workspace_id: WorkspaceId, op_id: OpId) -> ArchiveKey:
    return ArchiveKey(f"{workspace_id}/{op_id}/home.tar.zst")


def meta_key(key: ArchiveKey) -> str:
    """The commit marker beside an archive: it is uploaded last."""
    return f"{key}{META_SUFFIX}"


def archive_owner(text: str) -> str | None:
    """The workspace id that a key of exactly our form begins with, as text; None for anything else."""
    match = _ARCHIVE_KEY.fullmatch(text)
    return match[1] if match is not None else None


def parse_archive_key(text: str) -> ArchiveName:
    """The ids in a key of exactly our form; anything else in the store is not ours to touch."""
    match = _ARCHIVE_KEY.fullmatch(text)
    if match is None:
        raise InvalidName(f"{text!r} is not an archive key.", "It must be WORKSPACE_ID/OP_ID/home.tar.zst.")
    return ArchiveName(WorkspaceId(UUID(match[1])), OpId(UUID(match[2])))
