"""A short run of the simulation: the same seeds each time. `make test-simulation SEEDS=200` goes further."""

from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context

import pytest

from tests.simulation.outcome import Outcome
from tests.simulation.scale import DENSE, scale_of
from tests.simulation.simulation import run_seed

QUICK = range(20)
DEEP = (0, 1)


def _dense(seed: int) -> Outcome:
    return run_seed(seed, DENSE)


def test_nothing_is_lost_and_every_wish_comes_true() -> None:
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        outcomes = [*pool.map(_dense, QUICK), *pool.map(run_seed, DEEP)]
    failed = [str(outcome) for outcome in outcomes if outcome.violation is not None]
    assert not failed, "\n".join(failed)
    assert sum(outcome.faults for outcome in outcomes) > 1000, "the weather was too fine"


@pytest.mark.parametrize("seed", [3, 7])
def test_a_seed_replays_exactly(seed: int) -> None:
    first, again, another = run_seed(seed, DENSE), run_seed(seed, DENSE), run_seed(seed + 1, DENSE)
    assert (first.digest, first.events, first.virtual_hours) == (again.digest, again.events, again.virtual_hours)
    assert first.digest != another.digest


def test_a_seed_replays_exactly_in_another_process() -> None:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        assert pool.submit(_dense, 5).result().digest == run_seed(5, DENSE).digest


def test_a_crowd() -> None:
    crowd = replace(scale_of(99), workspaces=300, hours=0.02)
    outcome = run_seed(99, crowd)
    assert outcome.violation is None, outcome
    assert outcome.workspaces >= 150


def test_a_home_lost_while_it_is_archived_is_noticed() -> None:
    outcome = run_seed(200, replace(DENSE, losses=0.1))
    assert outcome.violation is None, outcome


def test_many_homes_that_were_really_lost_hold_nobody_up_once_that_is_accepted() -> None:
    outcome = run_seed(131, replace(DENSE, losses=0.3))
    assert outcome.violation is None, outcome
