"""The IDEs that tests use in a browser, installed once for all checkouts.

    python -m tests.lab.ides    install what is missing (`make ide-lab`)

JupyterLab takes seconds and is installed when a test wants it. code-server is built, which takes minutes: a test does
not do that by itself. They lie outside the tree, in CODEHUB_LAB_DIR, under a hash of what they are made from.
"""

import hashlib
import sys
from pathlib import Path

from codehub.drivers.ide import IDES
from codehub.drivers.process.install import LOCKED, install
from codehub.drivers.process.install_code_server import locked_files
from codehub.drivers.process.programs import is_installed
from codehub.errors import StartError
from tests.lab.places import lab_folder
from tests.support import missing

NAMES = ("jupyterlab", "code-server")


def folder() -> Path:
    made_from = b"".join(path.read_bytes() for path in (LOCKED, *locked_files()))
    return lab_folder() / f"ide-{hashlib.sha256(made_from).hexdigest()[:12]}"


def installed(name: str) -> Path:
    """The folder that it is in, under its name."""
    if name == "code-server" and not is_installed(IDES[name], folder()):
        missing("code-server", "make ide-lab")
    try:
        install(name, folder(), lambda _: None)
    except StartError as error:
        missing(f"{name} ({error})", "make ide-lab")
    return folder()


if __name__ == "__main__":
    for wanted in NAMES:
        try:
            install(wanted, folder(), print)
        except StartError as error:
            sys.exit(f"{wanted}: {error}")
