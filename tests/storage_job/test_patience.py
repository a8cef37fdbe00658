"""How long a job waits for a store that is out: by how much work would be lost."""

import pytest

from codehub.storage_job.patience import LONGEST, Patience
from codehub.storage_job.protocol import StoreUnreachable, TryAgain


class Clock:
    """Time passes only while a store is asked."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(("worked", "waits"), [(0, 30), (100, 100), (100_000, LONGEST)])
@pytest.mark.parametrize("share", [0.8, 1.5])
def test_the_longer_it_has_worked_the_longer_it_tries(worked: float, waits: float, share: float) -> None:
    clock = Clock()
    patience = Patience(30, now=clock, first_pause=0.0)
    clock.now += worked
    until = clock.now + waits * share

    def attempt() -> str:
        clock.now += 5.0
        if clock.now < until:
            raise StoreUnreachable("out")
        return "done"

    if share < 1:
        assert patience.call(attempt) == "done"
    else:
        with pytest.raises(StoreUnreachable):
            patience.call(attempt)
        assert clock.now < until


def test_what_is_no_outage_is_not_tried_again() -> None:
    asked = []

    def attempt() -> None:
        asked.append(1)
        raise TryAgain("no")

    with pytest.raises(TryAgain):
        Patience(30).call(attempt)
    assert asked == [1]


def test_whoever_gives_up_waits_no_longer() -> None:
    patience = Patience(3600)

    def attempt() -> None:
        patience.stopping.set()
        raise StoreUnreachable("out")

    with pytest.raises(StoreUnreachable):
        patience.call(attempt)
