"""Where what the lab is made of lies: outside the tree, once for all checkouts."""

import os
from pathlib import Path


def lab_folder() -> Path:
    own = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "codehub-lab"
    return Path(os.environ.get("CODEHUB_LAB_DIR", "/var/cache/codehub-lab" if os.geteuid() == 0 else own))
