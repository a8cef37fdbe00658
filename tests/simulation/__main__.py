"""Runs seeds and says what came of them: `make test-simulation SEEDS=200`, or SEED=17 to replay one.

SEEDS is a number of seeds (from FIRST on, 0 unless told) or a list of them (3,5,8).
"""

import os
import sys
from collections import Counter
from multiprocessing import Pool

from tests.simulation.outcome import Failing, Outcome, failing
from tests.simulation.simulation import run_seed

HOURS_OF_A_YEAR = 365.25 * 24


def seeds() -> list[int]:
    if "SEED" in os.environ:
        return [int(os.environ["SEED"])]
    wanted, first = os.environ.get("SEEDS") or "50", int(os.environ.get("FIRST") or 0)
    if "," in wanted:
        return [int(seed) for seed in wanted.split(",") if seed]
    return list(range(first, first + int(wanted)))


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> int:
    outcomes: list[Outcome] = []
    with Pool(int(os.environ.get("JOBS") or os.cpu_count() or 1)) as pool:
        for outcome in pool.imap_unordered(run_seed, seeds(), chunksize=1):
            outcomes.append(outcome)
            if outcome.violation is not None or "VERBOSE" in os.environ:
                say(str(outcome))
    failed = [outcome for outcome in outcomes if outcome.violation is not None]
    seconds = sum(outcome.seconds for outcome in outcomes)
    hours = sum(outcome.virtual_hours for outcome in outcomes)
    events, faults = sum(o.events for o in outcomes), sum(o.faults for o in outcomes)
    kinds: Counter[str] = sum((Counter(outcome.kinds) for outcome in outcomes), Counter())
    minutes = seconds / 60
    say(f"{len(outcomes)} seeds, {len(failed)} failed; {sum(o.workspaces for o in outcomes)} workspaces")
    say(f"{hours:.0f} simulated hours, {events} events, {faults} faults in {seconds:.0f} s of one core")
    say(f"per minute of one core: {hours / minutes:.0f} simulated hours, {faults / minutes:.0f} faults")
    say(f"most calls for one workspace that changed nothing: {max(o.most_asked for o in outcomes)}")
    say("faults: " + ", ".join(f"{kind} {number}" for kind, number in kinds.most_common()))
    broken = Counter(failing(outcome.violation) for outcome in outcomes if outcome.violation is not None)
    told = ", ".join(f"{kind.value} {broken[kind]}" for kind in Failing)
    say(f"simulated years {hours / HOURS_OF_A_YEAR:.3f}, faults {faults}, {told}")
    if failed:
        say("failed: " + ", ".join(f"SEED={outcome.seed}" for outcome in failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
