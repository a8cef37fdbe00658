"""Whose an archive store is."""

from datetime import UTC, datetime
from uuid import UUID

import pytest

from codehub.model.store_owner import Ownership, StoreClaim, StoreMarker, is_to_be_disputed, ownership, refusal

ONE, TWO = UUID(int=1), UUID(int=2)


def marker(token: UUID = ONE, database: str | None = "a/1", *, disputed: bool = False) -> StoreMarker:
    return StoreMarker(
        token=token,
        database=database,
        holder="there:1",
        commits=0,
        written_at=datetime(2026, 1, 2, tzinfo=UTC),
        is_disputed=disputed,
    )


@pytest.mark.parametrize(
    ("found", "claim", "whose", "disputes"),
    [
        (marker(), StoreClaim((ONE, TWO), "a/1"), Ownership.OURS, False),
        (marker(TWO), StoreClaim((ONE, TWO), "a/1"), Ownership.OURS, False),
        (marker(database=None), StoreClaim((ONE,), "a/1"), Ownership.OURS, False),
        (marker(), StoreClaim((ONE,), None), Ownership.OURS, False),
        (marker(), StoreClaim((TWO,), "a/1"), Ownership.OTHERS, True),
        (marker(disputed=True), StoreClaim((TWO,), "a/1"), Ownership.OTHERS, False),
        (marker(), StoreClaim((), "a/1"), Ownership.OTHERS, False),
        (marker(), StoreClaim((ONE,), "b/1"), Ownership.OTHERS, False),
        (marker(), StoreClaim((TWO,), "b/1"), Ownership.OTHERS, False),
        (marker(disputed=True), StoreClaim((ONE,), "a/1"), Ownership.DISPUTED, False),
    ],
)
def test_whose_a_marked_store_is(found: StoreMarker, claim: StoreClaim, whose: Ownership, disputes: bool) -> None:
    assert (ownership(found, claim), is_to_be_disputed(found, claim)) == (whose, disputes)
    assert (refusal(found, claim) is None) == (whose is Ownership.OURS)


def test_an_unmarked_store_is_free() -> None:
    assert ownership(None, StoreClaim((ONE,), "a/1")) is Ownership.FREE
    assert refusal(None, StoreClaim((), None)) is None
