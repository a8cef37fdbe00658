"""The allow-list of an installation: what CODEHUB_IMAGES means to each kind of backend.

A name alone is one of the catalogue (ide.py). For containers a name with an image runs that image, which listens on
port 8080, and so does a reference, which names itself; processes run the catalogue's programs only, so what is not in
it is not offered there.
"""

from collections.abc import Mapping

from codehub.drivers.docker import WorkspaceImage
from codehub.drivers.ide import IDES, AllowList
from codehub.errors import SettingsError
from codehub.model.images import is_pattern, is_reference
from codehub.model.workspace import InstanceBackend

FOR_PROCESSES = ("jupyterlab", "code-server")
FOR_CONTAINERS = ("code-server",)


def for_processes(images: Mapping[str, str | None]) -> AllowList:
    """Given without an image, or with one that only containers use."""
    _check(images)
    names = [name for name in images or FOR_PROCESSES if name in IDES]
    if not names:
        raise SettingsError(
            f"CODEHUB_IMAGES={_written(images)}: the backend `process` can run none of these; it knows: {_known()}."
        )
    return AllowList.of(names)


def offered(images: Mapping[str, str | None], backend: InstanceBackend) -> list[str]:
    """What the settings allow there; whether it is installed, only the coordinator of that machine could say."""
    return list(for_processes(images).ides if backend is InstanceBackend.PROCESS else for_containers(images))


def for_containers(images: Mapping[str, str | None]) -> dict[str, WorkspaceImage]:
    """By entries of the list: see WorkspaceImage.of for patterns."""
    _check(images)
    found = {}
    for name, image in (images or dict.fromkeys(FOR_CONTAINERS)).items():
        ide = IDES.get(name)
        if ide is not None:
            found[name] = WorkspaceImage(image or ide.image, ide.port, ide.ready_path)
        else:
            found[name] = WorkspaceImage(image or name)
    return found


def _check(images: Mapping[str, str | None]) -> None:
    for name, image in images.items():
        if image is None and name not in IDES and not (is_reference(name) or is_pattern(name)):
            raise SettingsError(
                f"CODEHUB_IMAGES={_written(images)}: {name} is none of {_known()}; say what it is, as in {name}=image."
            )


def _known() -> str:
    return ", ".join(name for name in IDES if name != "test")


def _written(images: Mapping[str, str | None]) -> str:
    return ",".join(name if image is None else f"{name}={image}" for name, image in images.items())
