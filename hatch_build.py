"""Hatchling's hook: a wheel or an sdist says which commit it was made of, in codehub/commit.txt."""

import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PACKAGE = {"sdist": "src/codehub", "wheel": "codehub"}


class CommitHook(BuildHookInterface):  # type: ignore[type-arg]  # of whichever builder it is
    """Adds the file; an sdist's wheel has it already."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        source = Path(self.root) / "src"
        sys.path.insert(0, str(source))
        from codehub.commit import FILE, commit  # noqa: PLC0415 - of the tree that is being built

        found = commit(source / "codehub")
        if version == "editable" or found is None or (source / "codehub" / FILE).exists():
            return
        self.folder = tempfile.TemporaryDirectory()  # until the build is done
        file = Path(self.folder.name) / FILE
        file.write_text(f"{found}\n")
        build_data["force_include"][str(file)] = f"{PACKAGE[self.target_name]}/{FILE}"
