"""Looks for the seeds that find the planted bugs: `python -m tests.simulation.hunt [BUG…]`, SEEDS= for how many."""

import os
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from tests.simulation import bugs, planting


def main() -> None:
    seeds = range(int(os.environ.get("FIRST") or 0), int(os.environ.get("SEEDS") or 200))
    names = sys.argv[1:] or list(bugs.ALL)
    with ProcessPoolExecutor(2, mp_context=get_context("spawn"), max_tasks_per_child=1) as pool:
        found = pool.map(planting.run_planted, [bugs.ALL[name] for name in names], [seeds] * len(names))
        for name, what in zip(names, found, strict=True):
            sys.stdout.write(f"{name}: {what}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
