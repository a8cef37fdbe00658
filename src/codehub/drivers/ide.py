"""The catalogue: which browser IDEs there are, and what an `image_ref` means to each driver.

An `image_ref` is a short name from this list, never a path, an address or a command: what is not in it cannot be run.
For containers a name stands for an image, for local processes for a program that is installed on demand.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from codehub.errors import TerminalError
from codehub.model.workspace import ErrorReason


@dataclass(frozen=True, slots=True)
class Ide:
    """One kind of workspace."""

    name: str
    title: str
    image: str  # what a container engine runs
    port: int = 8080  # where it listens in a container
    ready_path: str = "/"  # answered with a status below 500 once it takes traffic


IDES: Mapping[str, Ide] = {
    ide.name: ide
    for ide in (
        Ide("code-server", "VS Code in the browser", "codehub/workspace:latest"),
        Ide("jupyterlab", "JupyterLab: editor, terminal, notebooks", "codehub/jupyterlab:latest", 8080, "/api/status"),
        Ide("test", "A tiny workspace for tests", "codehub/test-workspace:latest"),
    )
}


@dataclass(frozen=True, slots=True)
class AllowList:
    """The IDEs that this installation offers."""

    ides: Mapping[str, Ide]

    @classmethod
    def of(cls, names: Iterable[str]) -> "AllowList":
        """Raises KeyError for a name that is in no catalogue."""
        return cls({name: IDES[name] for name in names})

    def find(self, image_ref: str) -> Ide:
        ide = self.ides.get(image_ref)
        if ide is None:
            offered = ", ".join(sorted(self.ides)) or "nothing"
            raise TerminalError(
                ErrorReason.IMAGE_PULL_FAILED, f"{image_ref!r} is not offered here.", f"Choose one of: {offered}."
            )
        return ide
