"""Our storage job beside the pipeline that one would write in a shell: 60,000 small files and some large ones.

Archive: `tar | zstd -3 -T0 | tee file | sha256sum`. Restore: `zstd -d | tar -x`, which verifies nothing. The folder
store is on the same disk. Both sides end on the disk: ours syncs by itself, the pipelines are given the sync that ours
does. They take turns, so that a noisy machine is noisy for both, and nothing is removed before the end: for minutes
ext4 looks for inodes among those that were just deleted, which takes longer than everything else. Needs tar and zstd.
"""

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from uuid import uuid4

from bench.report import Figure, report

ROUNDS = 3
MEMORY_AIM_MB = 200.0
PACKAGES, FOLDERS, FILES = 60, 50, 20
LARGE, LARGE_PIECES, PIECE = 8, 44, 1 << 21


def make_home(root: Path) -> int:
    """60,000 small files (log-normal sizes) and eight large ones; half of the bytes cannot be compressed."""
    chance = random.Random(7)
    text = make_text(chance, 4 << 20)
    noise = chance.randbytes(8 << 20)
    total = 0
    for package in range(PACKAGES):
        for folder in range(FOLDERS):
            path = root / f"package{package:02d}" / f"module{folder:02d}" / ("sub" if folder % 5 == 0 else "")
            path.mkdir(parents=True)
            for number in range(FILES):
                size = min(int(chance.lognormvariate(8, 1.2)), 200_000)
                source, suffix = (text, "py") if number % 2 else (noise, "bin")
                start = chance.randrange(len(source) - size)
                (path / f"file{number:02d}.{suffix}").write_bytes(source[start : start + size])
                total += size
    (root / "data").mkdir()
    for number in range(LARGE):
        with (root / "data" / f"large{number}").open("wb") as file:
            for piece in range(LARGE_PIECES):
                start = piece * 40_000
                file.write(chance.randbytes(PIECE) if number % 2 else text[start : start + PIECE])
                total += PIECE
    return total


def make_text(chance: random.Random, size: int) -> bytes:
    words = [bytes(chance.choices(b"abcdefghijklmnopqrstuvwxyz_", k=chance.randint(2, 11))) for _ in range(4000)]
    return b" ".join(chance.choices(words, k=size // 4))[:size]


def job(verb: str, directory: Path, archive: Path, memory: list[float]) -> None:
    """Run ours, and note its peak memory in MB."""
    known = {"verb": verb, "directory": str(directory), "op_id": uuid4().hex, "archive_key": "bench"}
    request = {**known, "archive_url": archive.as_uri(), "meta_url": archive.as_uri() + ".meta"}
    child = subprocess.Popen(
        [sys.executable, "-m", "codehub.storage_job"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
    )
    assert child.stdin is not None
    child.stdin.write(json.dumps(request).encode())
    child.stdin.close()
    peak = 0.0
    while child.poll() is None:
        peak = max(peak, memory_mb(child.pid))
        time.sleep(0.1)
    assert child.returncode == 0
    memory.append(peak)


def memory_mb(pid: int) -> float:
    """What a process and its children have in memory now; what they share is counted once."""
    total = 0
    with suppress(OSError):  # it has just ended
        below = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        for each in (str(pid), *below):
            lines = Path(f"/proc/{each}/smaps_rollup").read_text().splitlines()
            total += next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total / 1024


def shell(command: str) -> None:
    subprocess.run(["bash", "-euo", "pipefail", "-c", command], check=True)


def timed(act: Callable[[], object]) -> float:
    os.sync()
    started = time.perf_counter()
    act()
    return time.perf_counter() - started


def measure(base: Path) -> list[Figure]:
    home = base / "home"
    written: list[float] = []
    peer_written: list[float] = []
    restored: list[float] = []
    peer_restored: list[float] = []
    memory: list[float] = []
    for number in range(ROUNDS):
        place = base / str(number)
        for name in ("store", "ours", "peer"):
            (place / name).mkdir(parents=True)
        archive, packed = place / "store" / "home.tar.zst", place / "peer.tar.zst"
        compress = f"tar -C {home} -cf - . | zstd -q -3 -T0 | tee {packed} | sha256sum > {place}/sum; sync {packed}"
        unpack = f"zstd -q -dc {packed} | tar -C {place}/peer -xf -; sync -f {place}/peer"
        turns: list[tuple[list[float], Callable[[], object]]] = [
            (written, partial(job, "archive", home, archive, memory)),
            (peer_written, partial(shell, compress)),
            (restored, partial(job, "restore", place / "ours", archive, memory)),
            (peer_restored, partial(shell, unpack)),
        ]
        if number % 2:  # whoever goes second finds the disk as the first left it
            turns = [turns[1], turns[0], turns[3], turns[2]]
        for times, act in turns:
            times.append(timed(act))
        print(f"archive {written[-1]:.2f} s, peer {peer_written[-1]:.2f} s; ", end="")
        print(f"restore {restored[-1]:.2f} s, peer {peer_restored[-1]:.2f} s")
    return [
        Figure("write", "s", written, peer_written),
        Figure("restore", "s", restored, peer_restored),
        Figure("memory", "MB", [max(memory)], [MEMORY_AIM_MB]),
    ]


def main() -> None:
    for tool in ("tar", "zstd", "bash"):
        if not shutil.which(tool):
            sys.exit(f"missing on this machine: {tool}")
    base = Path(tempfile.mkdtemp(prefix="bench-archive-", dir=os.environ.get("BENCH_DIR", "/var/tmp")))
    try:
        (base / "home").mkdir()
        total = make_home(base / "home")
        print(f"{PACKAGES * FOLDERS * FILES + LARGE} files, {total / 1e9:.2f} GB")
        report("archive", measure(base))
    finally:
        shutil.rmtree(base)


if __name__ == "__main__":
    main()
