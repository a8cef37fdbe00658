"""The README's first command on bare machines: every kind of them, each to the end of a workspace's whole life.

    python -m tests.bare            the whole matrix: 32 machines, a quarter of an hour
    QUICK=1 python -m tests.bare    the four that differ most
    ONLY=trixie python -m tests.bare    those whose name has this word
    INTERRUPT=10 python -m tests.bare    instead, Ctrl-C at so many random moments of a first start
    CACHE=FOLDER                    uv's downloads are kept there: a warm package cache

One of them has no checkout: uvx runs the wheel that `make dist` builds. On another (ONLY=plot) a notebook installs
numpy and matplotlib and plots, before and after an archive; it says how long that took from Create.

Root only. A line for each: seconds to the URL, to the IDE's page, to the end of the life, and of the second start.
Exits with 1 if one failed.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support import free_port

ROOT = Path(__file__).parents[2]
MACHINE = Path(__file__).with_name("machine.sh")
SECONDS = 2700.0 if os.environ.get("INTERRUPT") else 900.0
END_SECONDS = 30.0  # for taking a machine down
LIFE = "python3 tests/bare/life.py make up"
PLOT = "python3 -m tests.bare.plot make up"
# As README.md says of a release, by the newest uv; the umask is that of a hardened machine.
WHEEL = (
    "python3 -m venv /tmp/uv && /tmp/uv/bin/pip install --quiet uv && umask 077"
    " && UV_SYSTEM_CERTS=true python3 life.py /tmp/uv/bin/uvx --from ./codehub_server-*.whl codehub up"
)
ELSEWHERE = "내 자료/code hub"  # a data directory with spaces and Korean letters, at home


@dataclass(frozen=True)
class Variant:
    """One kind of machine."""

    suite: str = "bookworm"
    user: str = "root"  # root, or an ordinary user
    sandbox: str = "installable"  # there, installable, or missing for good
    python: str = "system"
    elsewhere: bool = False  # the data directory
    stripped: bool = False  # no HOME, LANG=C, as from a service manager
    wheel: bool = False  # instead of a checkout
    plot: bool = False  # instead of a whole life

    @property
    def name(self) -> str:
        found = f"{self.suite} {self.user} bwrap-{self.sandbox} python-{self.python}" + " elsewhere" * self.elsewhere
        return found + " stripped" * self.stripped + " wheel umask-077" * self.wheel + " plot" * self.plot

    @property
    def options(self) -> Sequence[str]:
        found = ["--suite", self.suite, "--python", self.python]
        if self.user != "root":
            found.append("--sudo" if self.sandbox == "installable" else "--user")
        if self.sandbox == "there":
            found += ["--with", "bubblewrap"]
        elif self.sandbox == "missing":
            found.append("--no-packages")
        return found

    @property
    def command(self) -> str:
        times = os.environ.get("INTERRUPT")
        if self.wheel:
            return WHEEL
        if self.plot:
            return PLOT
        life = LIFE.replace("life.py", f"life.py --interrupt {int(times)}") if times else LIFE
        life = f"env -u HOME LANG=C {life}" if self.stripped else life
        if not self.elsewhere:
            return life
        home = "/srv" if self.user == "root" else "$HOME"
        return f'CODEHUB_DATA_DIR="{home}/{ELSEWHERE}" {life}'


BUILT = Variant(wheel=True)
PLOTTED = Variant(plot=True)


def matrix() -> Iterator[Variant]:
    """Each once; in every second one the data directory is elsewhere, and in two the environment is stripped.

    Only root has a Python below root's home.
    """
    number = 0
    for suite in ("bookworm", "trixie"):
        for user in ("root", "user"):
            for sandbox in ("there", "installable", "missing"):
                for python in ("system", "hidden", "venv") if user == "root" else ("system", "venv"):
                    stripped = (suite, sandbox, python) == ("bookworm", "missing", "system")
                    yield Variant(suite, user, sandbox, python, elsewhere=number % 2 == 1, stripped=stripped)
                    number += 1
    yield BUILT
    yield PLOTTED


# What broke on fresh machines before: no sandbox to be had and a Python that only root reaches; a user without rights;
# the newer Debian, where the sandbox is installed on the way; and what people install who have no checkout.
QUICK = (
    Variant(sandbox="missing", python="hidden", elsewhere=True),
    Variant(user="user", sandbox="missing", stripped=True),
    Variant(suite="trixie", sandbox="installable", python="venv"),
    BUILT,
)


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def build(folder: Path) -> Path:
    """What the machine without a checkout gets: the wheel, and what lives the life."""
    dist = folder / "dist"
    subprocess.run(("make", "--silent", "dist", f"OUT={dist}"), cwd=ROOT, stdout=subprocess.DEVNULL, check=True)
    (wheel,) = dist.glob("*.whl")
    given = folder / "wheel"
    given.mkdir()
    for path in (wheel, Path(__file__).with_name("life.py")):
        shutil.copy(path, given)
    return given


def try_out(variant: Variant, clone: Path) -> Mapping[str, Any]:
    """What life.py says at its end."""
    cache = ["--cache", os.environ["CACHE"]] if os.environ.get("CACHE") else []
    command = [str(MACHINE), "run", *variant.options, *cache, str(clone), variant.command]
    environment = {**os.environ, "CODEHUB_PORT": str(free_port())}
    with tempfile.TemporaryFile("w+") as output:
        # Ctrl-C is ours, and we end the machine.
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, env=environment,
            start_new_session=True,
        )  # fmt: skip
        in_time = True
        try:
            process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            in_time = False
        finally:
            end(process)
        output.seek(0)
        lines = output.read().splitlines()
    try:
        found: dict[str, Any] = json.loads(lines[-1])
    except (ValueError, IndexError):
        found = {"failed": f"it ended with {process.returncode}"}
    if not in_time:
        found = {"failed": f"it did not end within {SECONDS:g} s"}
    if "failed" in found:
        sys.stderr.write("\n".join(["", f"--- {variant.name}", *lines[-60:], ""]))
    elif variant.sandbox != "missing" and not found["sandbox"]:
        found["failed"] = "workspaces run without a sandbox"
    return found


def end(process: subprocess.Popen[bytes]) -> None:
    """It takes its machine down when asked to; when killed it leaves a folder, which the next one removes."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(END_SECONDS)


def main() -> int:
    if os.geteuid() != 0:
        sys.stderr.write("Bare machines can be made by root only.\n")
        return 2
    variants = list(QUICK if os.environ.get("QUICK") else matrix())
    variants = [one for one in variants if os.environ.get("ONLY", "") in one.name]
    if os.environ.get("INTERRUPT"):
        # What is made anew each time is the checkout, and what runs in it says how it went.
        variants = [one for one in variants if not one.wheel and not one.plot]
    failures = 0
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder) / "clone"
        subprocess.run(("git", "clone", "--quiet", str(ROOT), str(clone)), check=True)
        say(f"{'machine':<62}{'URL':>8}{'page':>8}{'life':>8}{'again':>8}")
        wheel = build(Path(folder)) if any(one.wheel for one in variants) else clone
        for variant in variants:
            found = try_out(variant, wheel if variant.wheel else clone)
            failures += "failed" in found
            figures = "".join(f"{found.get(key, '-'):>8}" for key in ("url", "page", "life", "second"))
            say(f"{variant.name:<62}{figures}  {found.get('failed', 'ok')}")
            for moment in found.get("moments", ()):
                say(f"    {moment}")
    passed = len(variants) - failures
    say(f"{passed} passed, {failures} failed in {time.monotonic() - began:.0f} s")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
