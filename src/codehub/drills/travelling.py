"""The time travel drill: a database is restored to before people's last work, and GC runs at once. What comes back?

Workspaces are brought into each state that a backup may find one in, worked on after the backup, and asked for again
after the restore, by the ways that their owners have. What came back is told by the sha256 of everything in the home.
"""

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from codehub.client import ApiError, Client, Workspace

LIMIT_SECONDS = 120.0
_LOOK_SECONDS = 0.2
_CONFLICT = 409


class Installation(Protocol):
    """What is drilled: an embedded installation that this drill starts and stops."""

    def start(self) -> Client: ...
    def stop(self) -> None: ...
    def home(self, identity: str) -> Path | None: ...
    def back_up(self) -> None: ...
    def restore(self) -> None: ...
    def adopt(self, identity: str, name: str) -> None: ...


@dataclass
class Case:
    """One workspace: what it is at the backup, what happens to it afterwards."""

    name: str
    then: Sequence[str]
    since: Sequence[str]
    made_since: bool = False
    id: str = ""
    written: str = ""  # the sha256 of its home when it was last written to
    found: str = ""
    ways: list[str] = field(default_factory=list)  # what its owner had to do
    trouble: str = ""

    @property
    def came_back(self) -> bool:
        return bool(self.written) and self.found == self.written


def cases() -> list[Case]:
    return [
        Case("left alone", ("write", "ARCHIVED"), ()),
        Case("archived since", ("write",), ("write", "ARCHIVED")),
        Case("archived anew", ("write", "ARCHIVED"), ("STANDBY", "write", "ARCHIVED")),
        Case("opened since", ("write", "ARCHIVED"), ("STANDBY", "write")),
        Case("home replaced since", ("write",), ("write", "ARCHIVED", "STANDBY", "write")),
        Case("undeleted, archived", ("write", "ARCHIVED", "delete"), ("undelete", "STANDBY", "write", "ARCHIVED")),
        Case("undeleted, opened", ("write", "ARCHIVED", "delete"), ("undelete", "STANDBY", "write")),
        Case("deleted since", ("write", "ARCHIVED"), ("delete",)),
        Case("created since", (), ("create", "write", "ARCHIVED"), made_since=True),
    ]


@dataclass(frozen=True, slots=True)
class Report:
    cases: Sequence[Case]
    collected: int  # archives that GC removed

    @property
    def is_well(self) -> bool:
        return all(one.came_back for one in self.cases)

    def as_dict(self) -> Mapping[str, object]:
        return {
            "workspaces": [
                {"name": one.name, "written": one.written, "found": one.found, "ways": one.ways, "trouble": one.trouble}
                for one in self.cases
            ],
            "gc_removed": self.collected,
            "well": self.is_well,
        }


class Drill:
    """One run. Every step waits until it is done, so that what the backup finds is certain."""

    def __init__(self, installation: Installation, say: Callable[[str], None]) -> None:
        self._installation = installation
        self._say = say
        self._client: Client

    def run(self) -> Report:
        found = cases()
        self._client = self._installation.start()
        self._say("Workspaces are made and brought into the states that the backup finds them in.")
        for case in found:
            if not case.made_since:
                self._happen(case, ("create", *case.then))
        self._installation.back_up()
        self._say("Backed up. People go on working.")
        for case in found:
            self._happen(case, case.since)
        self._installation.stop()
        self._installation.restore()
        self._say("Restored to before that work. GC runs at once, twice.")
        self._client = self._installation.start()
        collected = self._collect() + self._collect()
        for case in found:
            try:
                self._come_back(case)
            except (ApiError, TimeoutError) as error:
                case.trouble = str(error) or "It took too long."
        self._installation.stop()
        return Report(found, collected)

    def _happen(self, case: Case, events: Sequence[str]) -> None:
        for event in events:
            match event:
                case "create":
                    case.id = str(self._client.create_workspace(case.name, desired_state="STANDBY").id)
                    self._reaches(case, "STANDBY")
                case "write":
                    self._write(case)
                case "delete":
                    self._when_free(lambda: self._client.delete_workspace(case.id))
                    self._until(lambda: self._of(case).deleted_at is not None, "it is in the trash")
                case "undelete":
                    self._undelete(case)
                case desired:
                    self._ask_for(case, desired)
                    self._reaches(case, desired)

    def _come_back(self, case: Case) -> None:
        """What its owner does until the home is on its volume again."""
        if case.made_since:
            self._installation.adopt(case.id, case.name)
            case.ways.append("adopt")
            self._until(lambda: self._named(case) is not None, "it was adopted")
            case.id = self._named(case) or ""
            self._reaches(case, "ARCHIVED")
        elif self._of(case).deleted_at is not None:
            self._undelete(case)
            case.ways.append("undelete")
        self._until(lambda: self._of(case).phase in ("STANDBY", "ARCHIVED", "ERROR"), "it is at rest", calm=True)
        if self._of(case).phase == "ERROR":
            offered = self._of(case).error
            source = "volume" if offered and "volume" in offered.can_recover_from else "archive"
            self._client.recover_workspace(case.id, source, desired="STANDBY")
            case.ways.append(f"recover from {source}")
            self._until(lambda: self._of(case).phase != "ERROR", "it was recovered", calm=True)
        if self._of(case).desired_state != "STANDBY":
            self._when_free(lambda: self._client.set_state(case.id, "STANDBY"))
            case.ways.append("open")
        self._reaches(case, "STANDBY")
        case.found = self._sum(case)

    def _write(self, case: Case) -> None:
        folder = self._folder(case)
        before = len(list(folder.iterdir()))
        (folder / f"work-{before}.txt").write_text(f"{case.name}, {before}, {time.time_ns()}\n")
        case.written = self._sum(case)

    def _sum(self, case: Case) -> str:
        folder = self._folder(case)
        digest = hashlib.sha256()
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                digest.update(f"{path.relative_to(folder)}\0{path.stat().st_size}\0".encode())
                digest.update(path.read_bytes())
        return digest.hexdigest()

    def _folder(self, case: Case) -> Path:
        found = self._installation.home(case.id)
        if found is None:
            raise TimeoutError(f"The home of {case.name} is not where the process backend keeps homes.")
        return found

    def _undelete(self, case: Case) -> None:
        self._when_free(lambda: self._client.undelete_workspace(case.id))
        self._until(lambda: self._of(case).phase in ("ARCHIVED", "ERROR"), "it is back", calm=True)

    def _collect(self) -> int:
        identity = self._client.request_gc()

        def run() -> int | None:
            for one in self._client.gc_runs():
                if one.id == identity and one.finished_at is not None:
                    return int((one.report or {}).get("deleted", 0))
            return None

        self._until(lambda: run() is not None, "GC has run")
        return run() or 0

    def _reaches(self, case: Case, phase: str) -> None:
        self._until(lambda: self._of(case).phase == phase, f"{case.name} is {phase}", calm=True, case=case)

    def _of(self, case: Case) -> Workspace:
        return self._client.workspace(case.id)

    def _named(self, case: Case) -> str | None:
        return next((str(one.id) for one in self._client.workspaces() if one.name == case.name), None)

    def _ask_for(self, case: Case, desired: str) -> None:
        self._when_free(lambda: self._client.set_state(case.id, desired))

    def _when_free(self, ask: Callable[[], object]) -> None:
        """Ask again while something of it is still in progress."""

        def asked() -> bool:
            try:
                ask()
            except ApiError as error:
                if error.status != _CONFLICT:
                    raise
                return False
            return True

        self._until(asked, "it could be asked for")

    def _until(self, holds: Callable[[], bool], what: str, *, calm: bool = False, case: Case | None = None) -> None:
        """`calm`: it must hold at two looks, one after the other."""
        until, times = time.monotonic() + LIMIT_SECONDS, 0
        while times < (2 if calm else 1):
            times = times + 1 if holds() else 0
            if time.monotonic() > until:
                is_now = f"; it is {self._of(case).phase}" if case is not None else ""
                raise TimeoutError(f"Not within {LIMIT_SECONDS:.0f} s: {what}{is_now}.")
            time.sleep(_LOOK_SECONDS)
