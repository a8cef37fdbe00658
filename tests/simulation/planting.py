"""Bugs put back on purpose: a mutated copy of a module is loaded under its own name, in a process of its own.

Nothing in the product knows of this. Each replacement must match its file exactly once, so that a bug whose place has
changed is noticed instead of silently not being planted.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType


@dataclass(frozen=True)
class Edit:
    module: str  # without the package's name
    old: str
    new: str


@dataclass(frozen=True)
class Bug:
    name: str
    edits: tuple[Edit, ...]
    losses: float = 0.0  # how often the weather must really destroy something for it to show
    verbs: tuple[str, ...] = ()  # what must misbehave for it to show soon
    kinds: tuple[str, ...] = ()


class NotThere(Exception):
    """What was to be replaced is not in the file exactly once."""


class _Loader(SourceFileLoader):
    def __init__(self, name: str, path: str, edits: Sequence[Edit]) -> None:
        super().__init__(name, path)
        self._edits = edits

    def get_code(self, fullname: str) -> CodeType:
        """Never from the cache, never into it."""
        path = self.get_filename(fullname)
        source = self.get_data(path).decode()
        for edit in self._edits:
            if source.count(edit.old) != 1:
                raise NotThere(f"{edit.module}: {source.count(edit.old)} times: {edit.old!r}")
            source = source.replace(edit.old, edit.new)
        code: CodeType = compile(source, path, "exec")
        return code


class _Finder(MetaPathFinder):
    def __init__(self, edits: dict[str, list[Edit]]) -> None:
        self._edits = edits

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in self._edits:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        assert spec is not None
        assert spec.origin is not None
        spec.loader = _Loader(fullname, spec.origin, self._edits[fullname])
        return spec


def plant(bug: Bug) -> None:
    """From here on this process has the bug."""
    edits: dict[str, list[Edit]] = {}
    for edit in bug.edits:
        edits.setdefault(f"codehub.{edit.module}", []).append(edit)
    loaded = [name for name in edits if name in sys.modules]
    assert not loaded, f"already loaded: {loaded}"
    sys.meta_path.insert(0, _Finder(edits))


def run_planted(bug: Bug, seeds: Sequence[int]) -> tuple[int, str] | None:
    """In a new process: the first of these seeds that finds the bug, and what it says."""
    plant(bug)
    return next(((seed, what) for seed in seeds if (what := run_bare(bug, seed)) is not None), None)


def run_bare(bug: Bug, seed: int) -> str | None:
    """The same seed and weather; without the bug, unless it was planted."""
    from codehub.drivers.memory import Misbehaviour  # noqa: PLC0415 - everything is imported with the bug in it
    from tests.simulation.scale import DENSE  # noqa: PLC0415
    from tests.simulation.simulation import run_seed  # noqa: PLC0415

    kinds = tuple(Misbehaviour[kind] for kind in bug.kinds)
    return run_seed(seed, replace(DENSE, losses=bug.losses, verbs=bug.verbs, kinds=kinds)).violation
