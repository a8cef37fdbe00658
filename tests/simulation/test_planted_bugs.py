"""The simulation finds what it is for: each bug, the seed that finds it, and the invariant that it breaks.

A change of the coordinator moves a bug to another seed now and then: the ones after it are tried too, and
`python -m tests.simulation.hunt` looks further.
"""

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest

from tests.simulation import bugs, planting

# bug: (seed, what it says)
FOUND = {
    "trap 1": (22, "the newest version is nowhere the row will find it"),
    "trap 2": (34, "an old or half home counts as live"),
    "trap 3": (4, "PENDING with ARCHIVING is no valid pair"),
    "trap 4": (17, "an old or half home counts as live"),
    "trap 5": (23, "an old or half home counts as live"),
    "trap 6": (62, "an old or half home counts as live"),
    "trap 7": (37, "a job is left"),
    "trap 8": (8, "a live home was deleted"),
    "trap 9": (35, "an instance is left"),
    "trap 10": (0, "it goes round in circles"),
    "trap 11": (6, "it goes round in circles"),
    "trap 12": (23, "a TTL overwrote DELETED in STANDBY"),
    "trap 13": (81, "an archive was committed while an instance had the home"),
    "trap 14": (5, "a live home was deleted"),
    "trap 15": (0, "an archive that failed verification is made again under its old op_id"),
    "op_id reused": (0, "an operation started under a used op_id"),
    "deleted before the commit": (1, "PENDING with ARCHIVING is no valid pair"),
    "restore_marker kept": (18, "an old or half home counts as live"),
    "an outage is absence": (0, "DataLost, and nothing was lost"),
    "a full store is a failure": (2, "a false ERROR: RetryExceeded"),
    "a slow job times out": (0, "a false ERROR: Timeout"),
    "an unreadable file locks its owner out": (0, "a false ERROR: RetryExceeded"),
    "an evicted instance has crashed": (17, "a false ERROR: RetryExceeded"),
    "a jump times out": (12, "a false ERROR: Timeout"),
    "a listing ends a restore": (0, "a false ERROR: RetryExceeded"),
    "a purge stops GC": (0, "GC was stopped by what rows explain"),
    "a lost future is collected": (7, "a version of a lost future is nowhere any more"),
    "an older archive is adopted": (2, "a version of a lost future is nowhere any more"),
    "an old restore runs over a newer home": (6, "a live home was deleted"),
    "half a home is made live": (11, "half a home was made live by a recovery"),
    "nobody takes a deletion back": (0, "a version of a lost future is nowhere any more"),
    "ERROR forgotten": (1, "ERROR ended without a recovery"),
}
_MORE = 120  # seeds that are tried from the known one on
_MOST = 3  # that are looked at: a seed counts only if it passes without the bug


def test_every_bug_has_its_seed() -> None:
    assert FOUND.keys() == bugs.ALL.keys()


def test_every_bug_still_has_its_place() -> None:
    for bug in bugs.ALL.values():
        for module, edits in planting.by_module(bug).items():
            planting.edited(planting.source_of(module), edits)


@pytest.mark.exhaustive
@pytest.mark.timeout(1200)
def test_every_planted_bug_is_found_and_the_same_seed_passes_without_it() -> None:
    context = get_context("spawn")
    missed = {name: range(seed, seed + _MORE) for name, (seed, _) in FOUND.items()}
    with ProcessPoolExecutor(2, mp_context=context) as bare:
        for _ in range(_MOST):
            with ProcessPoolExecutor(2, mp_context=context, max_tasks_per_child=1) as planted:
                hits = planted.map(planting.run_planted, [bugs.ALL[name] for name in missed], missed.values())
                found = {name: hit[0] for name, hit in zip(missed, hits, strict=True) if hit is not None}
            without = bare.map(planting.run_bare, [bugs.ALL[name] for name in found], found.values())
            passed = {name for name, violation in zip(found, without, strict=True) if violation is None}
            missed = {
                name: range(found.get(name, seeds.stop) + 1, seeds.stop)
                for name, seeds in missed.items()
                if name not in passed
            }
    assert list(missed) == []
