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
    "trap 1": (9, "the newest version is nowhere the row will find it"),
    "trap 2": (34, "an old or half home counts as live"),
    "trap 3": (3, "PENDING with ARCHIVING is no valid pair"),
    "trap 4": (7, "an old or half home counts as live"),
    "trap 5": (19, "an old or half home counts as live"),
    "trap 6": (17, "an old or half home counts as live"),
    "trap 7": (37, "a job is left"),
    "trap 8": (7, "a live home was deleted"),
    "trap 9": (31, "an instance is left"),
    "trap 10": (0, "it goes round in circles"),
    "trap 11": (3, "it goes round in circles"),
    "trap 12": (6, "a TTL overwrote DELETED in STANDBY"),
    "trap 13": (157, "an archive was committed while an instance had the home"),
    "trap 14": (4, "a live home was deleted"),
    "trap 15": (0, "an archive that failed verification is made again under its old op_id"),
    "op_id reused": (0, "an operation started under a used op_id"),
    "deleted before the commit": (1, "PENDING with ARCHIVING is no valid pair"),
    "restore_marker kept": (17, "an old or half home counts as live"),
    "an outage is absence": (0, "DataLost, and nothing was lost"),
    "ERROR forgotten": (1, "ERROR ended without a recovery"),
}
_MORE = 120  # seeds that are tried from the known one on
_MOST = 3  # that are looked at: a seed counts only if it passes without the bug


def test_every_bug_has_its_seed() -> None:
    assert FOUND.keys() == bugs.ALL.keys()


@pytest.mark.exhaustive
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
