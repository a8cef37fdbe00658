"""Without fixed keys an upload has parts of one size, and so a largest archive."""

from typing import cast

import pytest
from obstore.store import MemoryStore, S3Store

from codehub.storage_job.parts import MOST_PARTS
from codehub.storage_job.protocol import Unarchivable
from codehub.storage_job.s3 import FIXED_PART, S3Object
from codehub.storage_job.unfinished import Unfinished

UNIT = 16
PART = bytes(FIXED_PART * UNIT)


def target() -> S3Object:
    """obstore's part of the way; how many parts S3 takes is known here, not there."""
    return S3Object(cast("S3Store", MemoryStore()), "k", Unfinished.of("b", "k", {}), (5.0, 1.0), UNIT)


def test_an_archive_that_is_too_large_for_its_parts_is_its_own_failure() -> None:
    archive = target()
    with pytest.raises(Unarchivable, match="needs S3_ACCESS_KEY_ID"):
        archive.write([PART] * MOST_PARTS + [b"."], lambda _: None)
    assert archive.size() is None


def test_an_archive_of_as_many_parts_as_there_can_be_is_taken() -> None:
    archive = target()
    archive.write([PART] * MOST_PARTS, lambda _: None)
    assert archive.size() == len(PART) * MOST_PARTS
