from itertools import pairwise

from codehub.embedded.restarts import PAUSES, STEADY_SECONDS, Restarts


def test_pauses_grow_and_end_at_the_longest() -> None:
    restarts = Restarts(is_needed=False)
    pauses = []
    for _ in range(30):
        restarts.died(seconds=1.0)
        pauses.append(restarts.pause)
        assert not restarts.is_hopeless
    assert all(before <= after for before, after in pairwise(pauses))
    assert pauses[0] == 0
    assert pauses[-1] == max(PAUSES)


def test_a_long_life_starts_over() -> None:
    restarts = Restarts(is_needed=True)
    for _ in range(5):
        restarts.died(seconds=1.0)
    restarts.died(seconds=STEADY_SECONDS)
    assert restarts.pause == 0


def test_one_that_is_needed_is_given_up_only_without_progress() -> None:
    restarts = Restarts(is_needed=True)
    for _ in range(100):
        restarts.progressed()
        restarts.died(seconds=1.0)
        assert not restarts.is_hopeless
    for _ in range(len(PAUSES)):
        assert not restarts.is_hopeless
        restarts.died(seconds=0.0)
    assert restarts.is_hopeless


def test_a_full_disk_counts_against_nobody() -> None:
    restarts = Restarts(is_needed=True)
    for _ in range(100):
        restarts.died(seconds=0.0, is_full=True)
    assert not restarts.is_hopeless
    assert restarts.pause == max(PAUSES)
