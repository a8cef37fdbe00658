"""A short run of the simulation: the same seeds each time. `make test-simulation SEEDS=200` goes further."""

from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context

import pytest

from tests.simulation.outcome import Failing, Outcome, failing
from tests.simulation.scale import DENSE, Disaster, scale_of
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


def test_ordinary_seeds_meet_every_disaster_and_clocks_that_jump_beside_a_database_that_goes_back() -> None:
    met = [{*scale_of(seed).disasters} for seed in range(99)]
    assert set.union(*met) == set(Disaster)
    assert any({Disaster.CLOCKS_JUMP, Disaster.COMMITS_LOST} <= each for each in met)


@pytest.mark.parametrize(
    ("violation", "kind"),
    [
        ("version 41 of a lost future is nowhere any more", Failing.LOSS),
        ("a live home was deleted", Failing.LOSS),
        ("stuck: 2 owners cannot get in: ERROR NONE DataLost", Failing.STUCK),
        ("3 do not converge: STANDBY STARTING", Failing.STUCK),
        ("DataLost, and nothing was lost", Failing.FALSE_ERROR),
        ("a false ERROR: Timeout: its home is not ready", Failing.FALSE_ERROR),
        ("a TTL stopped an active user", Failing.OTHER),
    ],
)
def test_the_summary_tells_losses_from_what_is_stuck_and_from_false_errors(violation: str, kind: Failing) -> None:
    assert failing(violation) is kind


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
