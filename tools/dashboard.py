"""Whether the dashboard that is committed is that of its sources: python3 tools/dashboard.py [--record]

What Vite builds is in the repository (ADR 14), beside a digest of what it was built from. The exit code is 0 when the
digest is that of the sources; `--record` writes it after a build. It uses the standard library alone.
"""

import hashlib
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILT = Path("src/codehub/web/dashboard/built")
DIGEST = BUILT / "sources.sha256"
# Everything that a build reads; the help beside a finding is the runbook's.
SOURCES = (
    *("frontend/src", "frontend/index.html", "frontend/vite.config.ts", "frontend/tsconfig.json"),
    *("frontend/package.json", "frontend/package-lock.json", "docs/runbook.md"),
)


def is_current(root: Path = ROOT) -> bool:
    """Whether there is a build, and of these sources."""
    try:
        return (root / DIGEST).read_text().strip() == digest_of_sources(root)
    except FileNotFoundError:
        return False


def record(root: Path = ROOT) -> None:
    """What is built is of these sources."""
    (root / DIGEST).write_text(digest_of_sources(root) + "\n")


def digest_of_sources(root: Path = ROOT) -> str:
    """One digest of every source's path and content."""
    total = hashlib.sha256()
    for path in _files(root):
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        total.update(f"{content}  {path.relative_to(root).as_posix()}\n".encode())
    return total.hexdigest()


def _files(root: Path) -> Iterator[Path]:
    for source in SOURCES:
        path = root / source
        yield from sorted(one for one in path.rglob("*") if one.is_file()) if path.is_dir() else [path]


if __name__ == "__main__":
    if sys.argv[1:] == ["--record"]:
        record()
    else:
        sys.exit(0 if is_current() else 1)
