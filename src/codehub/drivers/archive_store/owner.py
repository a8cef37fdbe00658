"""The marker of a store's owner (model/store_owner.py) as a small object beside the archives."""

import json
from dataclasses import asdict
from datetime import UTC, datetime
from uuid import UUID

from codehub.model.store_owner import StoreMarker

NAME = ".codehub-owner"  # of no archive's form: GC and listings pass it over
MOST_BYTES = 4096
_UNREADABLE = UUID(int=0)


def encode(marker: StoreMarker) -> bytes:
    content = asdict(marker) | {"token": str(marker.token), "written_at": marker.written_at.isoformat()}
    return json.dumps(content, indent=1).encode() + b"\n"


def parse(text: bytes) -> StoreMarker:
    """What cannot be read is somebody's all the same, and nobody's of us."""
    try:
        said = json.loads(text)
        return StoreMarker(
            token=UUID(str(said["token"])),
            database=None if said["database"] is None else str(said["database"]),
            holder=str(said["holder"]),
            commits=int(said["commits"]),
            written_at=datetime.fromisoformat(said["written_at"]).astimezone(UTC),
            is_disputed=bool(said["is_disputed"]),
        )
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        unknown = datetime.fromtimestamp(0, UTC)
        return StoreMarker(token=_UNREADABLE, database=None, holder="unreadable", commits=0, written_at=unknown)
