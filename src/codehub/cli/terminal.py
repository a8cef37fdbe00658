"""What a terminal can show: a live line, colours, more than ASCII. Everything else gets plain lines.

With LANG=C Python writes UTF-8, which such a terminal may not read: our signs are then replaced by ASCII.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TextIO

_ASCII = str.maketrans({"…": "...", "─": "-", "✓": "+", "→": "->", "—": "-", "–": "-", "“": '"', "”": '"', "’": "'"})
_CONTAINER_NAMES = ("container", "KUBERNETES_SERVICE_HOST")
_CONTAINER_FILES = (".dockerenv", "run/.containerenv")
_YELLOW, _BOLD, _PLAIN = "\x1b[33m", "\x1b[1m", "\x1b[0m"


def is_live(stream: TextIO | None = None, environment: Mapping[str, str] = os.environ) -> bool:
    """Whether lines can be drawn anew, in colour."""
    if environment.get("NO_COLOR") or environment.get("TERM", "dumb") == "dumb":
        return False
    return _isatty(stream or _out())


def is_watched(
    stream: TextIO | None = None,
    environment: Mapping[str, str] = os.environ,
    root: Path = Path("/"),
    parent: int | None = None,
) -> bool:
    """Whether what is written is read by a person, and kept by nobody.

    The terminal of a container's first process (`tty: true`) is kept in the container's log; that of a shell which
    somebody opened in it is not. Engines leave a file, systemd and our image a variable; and what an engine starts has
    no parent that can be seen.
    """
    is_contained = (
        any(name in environment for name in _CONTAINER_NAMES)
        or any((root / file).exists() for file in _CONTAINER_FILES)
        or (os.getppid() if parent is None else parent) == 0
    )
    own = _terminal_of(root / "proc/self")
    is_logged = is_contained and own is not None and own == _terminal_of(root / "proc/1")
    return _isatty(stream or _out()) and not is_logged


def has_unicode(stream: TextIO | None = None, environment: Mapping[str, str] = os.environ) -> bool:
    """Whether what reads this is expected to know more than ASCII."""
    if not (getattr(stream or _out(), "encoding", None) or "").lower().startswith("utf"):
        return False
    if not _isatty(stream or _out()):
        return True
    chosen = environment.get("LC_ALL") or _ctype(environment) or environment.get("LANG") or "C"
    return chosen.partition("@")[0].lower().replace("-", "").endswith("utf8")


def _ctype(environment: Mapping[str, str]) -> str | None:
    """Python sets C.UTF-8 by itself where there is only LANG=C, which tells nothing about the terminal."""
    ctype = environment.get("LC_CTYPE")
    is_python_s = ctype in ("C.UTF-8", "C.utf8", "UTF-8") and environment.get("LANG", "C") in ("", "C", "POSIX")
    return None if is_python_s else ctype


def shown(text: str) -> str:
    """As standard output can show it."""
    return text if has_unicode() else as_ascii(text)


def as_ascii(text: str) -> str:
    return text.translate(_ASCII).encode("ascii", "replace").decode("ascii")


def bold(text: str) -> str:
    return f"{_BOLD}{text}{_PLAIN}" if is_live() else text


def yellow(text: str) -> str:
    return f"{_YELLOW}{text}{_PLAIN}" if is_live() else text


def _out() -> TextIO:
    """Standard output itself: while a bar is drawn, Rich stands before it."""
    found: TextIO = getattr(sys.stdout, "rich_proxied_file", sys.stdout)
    return found


def _terminal_of(process: Path) -> str | None:
    """The number of its controlling terminal (proc(5)); None if it has none, or that is not told."""
    try:
        number = (process / "stat").read_text(errors="replace").rpartition(")")[2].split()[4]
    except (OSError, IndexError):
        return None
    return number if number != "0" else None


def _isatty(stream: TextIO) -> bool:
    try:
        return stream.isatty()
    except ValueError:  # closed
        return False
