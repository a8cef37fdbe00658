"""The simulation finds what it is for: each bug, the seed that finds it, and the invariant that it breaks.

A change of the coordinator moves a bug to another seed now and then: the ones after it are tried too, and
`python -m tests.simulation.hunt` looks further.
"""

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from tests.simulation import bugs, planting

# bug: (seed, what it says)
FOUND = {
    "trap 1": (4, "the newest version is nowhere the row will find it"),
    "trap 2": (22, "an old or half home counts as live"),
    "trap 3": (1, "the newest version is nowhere the row will find it"),
    "trap 4": (0, "the newest version is nowhere the row will find it"),
    "trap 5": (8, "an old or half home counts as live"),
    "trap 6": (11, "an old or half home counts as live"),
    "trap 7": (27, "a job is left"),
    "trap 8": (2, "a live home was deleted"),
    "trap 9": (10, "an instance is left"),
    "trap 10": (0, "it goes round in circles"),
    "trap 11": (1, "an instance is left"),
    "trap 12": (6, "a TTL overwrote ARCHIVED in STANDBY"),
    "trap 13": (157, "an archive was committed while an instance had the home"),
    "trap 14": (0, "a live home was deleted"),
    "trap 15": (0, "an archive that failed verification is made again under its old op_id"),
    "op_id reused": (0, "an operation started under a used op_id"),
    "deleted before the commit": (1, "PENDING with ARCHIVING is no valid pair"),
    "restore_marker kept": (11, "an old or half home counts as live"),
    "an outage is absence": (0, "DataLost, and nothing was lost"),
    "ERROR forgotten": (1, "ERROR ended without a recovery"),
}
_MORE = 120  # seeds that are tried from the known one on
_MOST = 3  # that are kept: a seed counts only if it passes without the bug


def test_every_bug_has_its_seed() -> None:
    assert FOUND.keys() == bugs.ALL.keys()


def test_every_planted_bug_is_found_and_the_same_seed_passes_without_it() -> None:
    names = list(FOUND)
    context = get_context("spawn")
    with ProcessPoolExecutor(2, mp_context=context, max_tasks_per_child=1) as pool:
        seeds = [range(FOUND[name][0], FOUND[name][0] + _MORE) for name in names]
        planted = [bugs.ALL[name] for name in names]
        found = list(pool.map(planting.run_planted, planted, seeds, [_MOST] * len(names)))
    candidates = [(name, seed) for name, several in zip(names, found, strict=True) for seed, _ in several]
    with ProcessPoolExecutor(2, mp_context=context) as pool:
        bare = list(pool.map(planting.run_bare, [bugs.ALL[name] for name, _ in candidates], [s for _, s in candidates]))
    caught = {name for (name, _), what in zip(candidates, bare, strict=True) if what is None}
    assert [name for name in names if name not in caught] == []
