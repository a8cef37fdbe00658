"""The storage job's own code and the two libraries it needs, as jobs find them; nothing else of ours.

They are used from wherever they are installed. A job runs as its workspace's user: where root has installed them with
a strict umask, that user cannot read them, and a copy (scripts.py) is used instead. What is installed is not changed.
"""

import importlib.util
from collections.abc import Mapping
from pathlib import Path

from codehub.drivers.process.layout import Layout
from codehub.drivers.process.sandbox import Bind
from codehub.drivers.process.scripts import Copy, is_closed, is_closed_alone, paths_in
from codehub.errors import ActionFailed

_INSIDE = "/opt/codehub-job"
_NEEDED = ("obstore", "zstandard")


class JobCode:
    """`for_others`: jobs run as other users than ours."""

    def __init__(self, layout: Layout, *, for_others: bool) -> None:
        self._copy = Copy(_files(), layout) if for_others and _is_closed() else None

    @property
    def copy(self) -> Path | None:
        return self._copy.path if self._copy is not None else None

    @property
    def binds(self) -> list[Bind]:
        return [Bind(self.copy, _INSIDE)] if self.copy is not None else installed()

    @property
    def places(self) -> list[str]:
        """Where Python finds `storage_job` and the libraries in a sandbox."""
        return list(dict.fromkeys([_INSIDE, *(bind.target for bind in self.binds[1:])]))

    @property
    def plain_module(self) -> str:
        """What Python runs without a sandbox: the job has its full name where it is installed."""
        return "storage_job" if self.copy is not None else "codehub.storage_job"

    @property
    def plain_places(self) -> list[str]:
        """Where Python finds that, and the libraries."""
        if self.copy is not None:
            return [str(self.copy)]
        job, *libraries = installed()
        return list(dict.fromkeys([str(job.source.parent.parent), *(str(bind.source) for bind in libraries)]))

    def close(self) -> None:
        if self._copy is not None:
            self._copy.close()


def installed() -> list[Bind]:
    """The job first."""
    job, *libraries = _packages().values()
    binds = [Bind(job, f"{_INSIDE}/storage_job")]
    for library in libraries:
        bind = Bind(library.parent, str(library.parent))
        if bind not in binds and not library.is_relative_to("/usr"):
            binds.append(bind)
    return binds


def library_files() -> list[str]:
    """What a library is found by: changes with its version, and with where it is."""
    found = (importlib.util.find_spec(name) for name in _NEEDED)
    return [one.origin for one in found if one is not None and one.origin is not None]


def _packages() -> Mapping[str, Path]:
    """The folder of each package that a job needs; the job's own is the first."""
    found = {}
    for name in ("codehub.storage_job", *_NEEDED):
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:
            raise ActionFailed(f"The Python package {name} is not installed.")
        found[name.removeprefix("codehub.")] = Path(spec.origin).parent
    return found


def _is_closed() -> bool:
    """Whether a workspace's user cannot read a package, or cannot find it in the folder that is shown to that user."""
    job, *libraries = _packages().values()
    ways = {job.parent, job.parent / "__init__.py", job.parent.parent, *(library.parent for library in libraries)}
    return any(map(is_closed_alone, ways)) or is_closed(job, *libraries)


def _files() -> Mapping[str, Path]:
    return {
        f"{name}/{path.relative_to(folder)}": path
        for name, folder in _packages().items()
        for path in paths_in(folder)
        if path.is_file()
    }
