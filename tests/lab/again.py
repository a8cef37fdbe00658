"""Tests that fail are run once more, alone: who passes then is flaky, is named, and more than three fail the run.

    python -m tests.lab.again [arguments of pytest]

Everything is asked for in the second run as it was in the first. Only who has passed there has passed: who is skipped,
or not found any more, has not.
"""

import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import pytest

MOST_FLAKY = 3
MOST_AGAIN = 20  # who fails together with so many others was not unlucky
_TESTS_FAILED = 1
_OPTION = "--outcomes"


@dataclass(frozen=True)
class Verdict:
    """Of both runs."""

    failed: Sequence[str]
    flaky: Sequence[str]

    @property
    def code(self) -> int:
        return 1 if self.failed or len(self.flaky) > MOST_FLAKY else 0

    def lines(self) -> list[str]:
        said = [f"==> {len(self.failed)} failed, {len(self.flaky)} flaky (failed, then passed alone)"]
        said += [f"    failed  {each}" for each in self.failed] + [f"    flaky   {each}" for each in self.flaky]
        if len(self.flaky) > MOST_FLAKY:
            said.append(f"    more than {MOST_FLAKY} flaky tests fail the run")
        return said


def judge(failed: Sequence[str], again: Mapping[str, str]) -> Verdict:
    """From those that failed, and how each of them ended the second time."""
    flaky = [test for test in failed if again.get(test) == "passed"]
    return Verdict([test for test in failed if test not in flaky], flaky)


class Outcomes:
    """How each test ended: of its phases the worst."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.found: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.outcome != "passed" or report.when == "call":
            worst = "failed" in (report.outcome, self.found.get(report.nodeid))
            self.found[report.nodeid] = "failed" if worst else report.outcome

    def pytest_sessionfinish(self) -> None:
        self.path.write_text(json.dumps(self.found))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(_OPTION, help="write into this file how each test ended")


def pytest_configure(config: pytest.Config) -> None:
    path = config.getoption(_OPTION)
    if path and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Outcomes(Path(path)))


def _run(arguments: Sequence[str]) -> tuple[int, dict[str, str]]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "outcomes")
        command = [sys.executable, "-m", "pytest", "-p", "tests.lab.again", f"{_OPTION}={path}", *arguments]
        with subprocess.Popen(command) as process:

            def pass_on(number: int, _: FrameType | None) -> None:
                process.send_signal(number)

            signal.signal(signal.SIGTERM, pass_on)
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal tells the tests themselves, and they are awaited
            code = process.wait()
        return code, json.loads(path.read_text()) if path.exists() else {}


def _again(failed: Sequence[str]) -> Verdict:
    _say([f"==> {len(failed)} failed: once more, alone"])
    _, outcomes = _run(["-n", "0", *failed])
    return judge(failed, outcomes)


def _say(lines: Sequence[str]) -> None:
    sys.stdout.write("\n".join([*lines, ""]))
    sys.stdout.flush()


def main(arguments: Sequence[str]) -> int:
    code, outcomes = _run(arguments)
    failed = [test for test, outcome in outcomes.items() if outcome == "failed"]
    if code != _TESTS_FAILED or not 0 < len(failed) <= MOST_AGAIN:
        return code
    verdict = _again(failed)
    _say(verdict.lines())
    return verdict.code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
