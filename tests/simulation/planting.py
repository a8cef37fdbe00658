"""Bugs put back on purpose: a mutated copy of a module is loaded under its own name, in a process of its own.

Nothing in the product knows of this. Each replacement must match its file exactly once, so that a bug whose place has
changed is noticed instead of silently not being planted.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType

import codehub


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
    disasters: tuple[str, ...] = ()  # what must strike for it to show
    weather_every: float = 15.0
    is_fair: bool = False  # … while nothing else fails that anybody could be blamed for


class NotThere(Exception):
    """What was to be replaced is not in the file exactly once."""


def by_module(bug: Bug) -> dict[str, list[Edit]]:
    edits: dict[str, list[Edit]] = {}
    for edit in bug.edits:
        edits.setdefault(f"codehub.{edit.module}", []).append(edit)
    return edits


def source_of(module: str) -> str:
    """Read, not imported: what is imported may be edited already."""
    path = Path(codehub.__file__).parents[1].joinpath(*module.split("."))
    return path.with_suffix(".py").read_text()


def edited(source: str, edits: Sequence[Edit]) -> str:
    for edit in edits:
        if source.count(edit.old) != 1:
            raise NotThere(f"{edit.module}: {source.count(edit.old)} times: {edit.old!r}")
        source = source.replace(edit.old, edit.new)
    return source


class _Loader(SourceFileLoader):
    def __init__(self, name: str, path: str, edits: Sequence[Edit]) -> None:
        super().__init__(name, path)
        self._edits = edits

    def get_code(self, fullname: str) -> CodeType:
        """Never from the cache, never into it."""
        path = self.get_filename(fullname)
        code: CodeType = compile(edited(self.get_data(path).decode(), self._edits), path, "exec")
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
    edits = by_module(bug)
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
    from tests.simulation.scale import DENSE, STRICKEN, Disaster  # noqa: PLC0415
    from tests.simulation.simulation import run_seed  # noqa: PLC0415

    kinds = tuple(Misbehaviour[kind] for kind in bug.kinds)
    scale = replace(STRICKEN if bug.disasters else DENSE, losses=bug.losses, verbs=bug.verbs, kinds=kinds)
    disasters = tuple(Disaster[name] for name in bug.disasters)
    if bug.disasters:
        scale = replace(scale, disasters=disasters, is_fair=bug.is_fair, weather_every=bug.weather_every)
    return run_seed(seed, scale).violation
