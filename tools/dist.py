"""Everything of a release, in dist/: python tools/dist.py [FOLDER]

    codehub_server-V.tar.gz             the sdist, of this folder
    codehub_server-V-py3-none-any.whl   the wheel, built from that sdist
    sbom.cdx.json                       what an installation consists of, as CycloneDX
    licences.txt                        the licence of each part
    SHA256SUMS                          of all these

The same commit makes the same bytes: times are the commit's, and nothing of the machine gets into a file.
A folder that has anything but an earlier release in it is refused: of an earlier one its SHA256SUMS names the files.
It needs the groups `run` and `build` (`make dist`).
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tools import parts  # noqa: E402

SUMS = "SHA256SUMS"
_OURS = re.compile(r"[0-9a-f]{64}  (codehub_server-[\w.+!-]+(?:\.tar\.gz|\.whl)|sbom\.cdx\.json|licences\.txt)")


def main(folder: Path) -> None:
    """Put a release into the folder, instead of the one that is there."""
    os.environ["SOURCE_DATE_EPOCH"] = str(epoch())
    earlier(folder)  # whoever named the wrong folder is told now, not in a minute
    with tempfile.TemporaryDirectory() as made:
        make(Path(made))
        replace(folder, Path(made))
    for path in sorted(folder / name for name in (*earlier(folder), SUMS)):
        print(f"{path.stat().st_size:>10,}  {path.name}")


def make(folder: Path) -> None:
    """A release in an empty folder."""
    sdist = _build("sdist", ROOT, folder)
    with tempfile.TemporaryDirectory() as unpacked:
        with tarfile.open(sdist) as archive:
            archive.extractall(unpacked, filter="data")
        (source,) = Path(unpacked).iterdir()
        wheel = _build("wheel", source, folder)
    found = parts.all_parts(ROOT)
    version = wheel.name.split("-")[1]
    (folder / "sbom.cdx.json").write_text(json.dumps(parts.sbom(version, found, epoch()), indent=2) + "\n")
    (folder / "licences.txt").write_text(parts.licence_report(version, found))
    sums = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in sorted(folder.iterdir())]
    (folder / SUMS).write_text("".join(sums))


def earlier(folder: Path) -> list[str]:
    """The files of the release in the folder. Ends the program if it holds something else: that is somebody's."""
    if not folder.exists():
        return []
    if not folder.is_dir():
        sys.exit(f"{folder} is no folder.")
    try:
        lines = (folder / SUMS).read_text().splitlines()
    except (FileNotFoundError, UnicodeDecodeError):
        lines = []
    found = [_OURS.fullmatch(line) for line in lines]
    if any(folder.iterdir()) and not (found and all(found)):
        sys.exit(f"{folder} has files that are no release of CodeHub. Name an empty folder: make dist OUT=folder")
    return [one[1] for one in found if one]


def replace(folder: Path, made: Path) -> None:
    """Nothing but an earlier release goes. Interrupted at any point, the folder is still taken for a release."""
    for name in earlier(folder):
        (folder / name).unlink(missing_ok=True)
    folder.mkdir(parents=True, exist_ok=True)
    for name in (SUMS, *earlier(made)):
        shutil.copyfile(made / name, folder / name)


def epoch() -> int:
    """When the commit was made; SOURCE_DATE_EPOCH where there is no repository."""
    command = ["git", "-C", str(ROOT), "log", "-1", "--format=%ct"]
    try:
        return int(subprocess.run(command, check=True, capture_output=True, text=True, timeout=10).stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return int(os.environ.get("SOURCE_DATE_EPOCH", "1577836800"))  # 2020-01-01, as Hatchling has it


def _build(target: str, source: Path, folder: Path) -> Path:
    before = set(folder.iterdir())
    command = [sys.executable, "-m", "hatchling", "build", "--target", target, "--directory", str(folder)]
    done = subprocess.run(command, cwd=source, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{done.stdout}{done.stderr}The {target} cannot be built.")
    (made,) = set(folder.iterdir()) - before
    return made


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "dist")
