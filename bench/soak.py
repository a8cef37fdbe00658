"""Whether memory levels off: `codehub up` while its workspaces start, stop, are archived and restored all the time.

Ours is `codehub up` as people run it, with its sandbox, on a folder as its store. Each workspace is asked for its next
state as soon as it is at rest: RUNNING → STANDBY → ARCHIVED → RUNNING. Every home holds a few megabytes that nobody
can compress, so that reading back moves data. Told are the resident memory of CodeHub's own process and of all that it
started, four times a minute, and at the end how much the second half of the time added.

`python -m bench.soak MINUTES NUMBER` (6 minutes, 8 workspaces).
"""

import os
import shutil
import sys
import time
from pathlib import Path

import httpx

from bench.measured import descendants, megabytes
from bench.spawn import settings
from tests.cli import codehub
from tests.support import short_folder

SAMPLE_SECONDS = 15.0
LARGE = 8 << 20
_PAUSE_SECONDS = 0.25
_NEXT = {"PENDING": "RUNNING", "RUNNING": "STANDBY", "STANDBY": "ARCHIVED", "ARCHIVED": "RUNNING"}


def resident(pid: int) -> float:
    """Megabytes of one process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def fill(data: Path) -> None:
    """Every home has something that nobody can compress; as root, who may write there."""
    for home in (data / "workspaces" / "homes").glob("*/*"):
        (home / "large").write_bytes(os.urandom(LARGE))
        os.chown(home / "large", home.stat().st_uid, home.stat().st_gid)


def rows(client: httpx.Client) -> list[dict[str, str]]:
    found: list[dict[str, str]] = client.get("/api/v1/workspaces", params={"limit": 100}).json()["items"]
    return found


def step(client: httpx.Client) -> int:
    """Ask everybody at rest for what comes next; how many were asked."""
    asked = 0
    for row in rows(client):
        if row["operation"] == "NONE" and row["phase"] == row["desired_state"]:
            wanted = {"desired_state": _NEXT[row["phase"]]}
            asked += client.patch(f"/api/v1/workspaces/{row['id']}", json=wanted).is_success
    return asked


def soak(minutes: float, number: int, folder: Path) -> None:
    given = {**settings(number), "CODEHUB_LOG_LEVEL": "warning"}
    with codehub.running(folder / "data", folder / "log", **given) as up:
        base = up.url.partition("#")[0].partition("?")[0].rstrip("/")
        with httpx.Client(base_url=base, timeout=30, trust_env=False) as client:
            account = {"username": "admin", "password": given["CODEHUB_ADMIN_PASSWORD"]}
            client.post("/api/v1/login", json=account).raise_for_status()
            client.headers["Origin"] = base
            for each in range(number):
                client.post("/api/v1/workspaces", json={"name": f"w{each}"}).raise_for_status()
            while any(row["phase"] != "RUNNING" for row in rows(client)):
                time.sleep(_PAUSE_SECONDS)
            fill(folder / "data")
            curve: list[float] = []
            asked, began = 0, time.monotonic()
            while (now := time.monotonic() - began) < minutes * 60:
                asked += step(client)
                if now >= len(curve) * SAMPLE_SECONDS:
                    curve.append(resident(up.process.pid))
                    everything = megabytes(descendants(up.process.pid))
                    told = f"{curve[-1]:.1f} MB of its own, {everything:.0f} MB in all; {asked} transitions"
                    print(f"{now:5.0f} s: {told}", flush=True)
                time.sleep(_PAUSE_SECONDS)
    half = len(curve) // 2
    print(f"{asked} transitions; the second half added {curve[-1] - curve[half]:.1f} MB of {curve[-1]:.1f}")


if __name__ == "__main__":
    words = [float(word) for word in sys.argv[1:]]
    place = short_folder()
    try:
        soak(words[0] if words else 6.0, int(words[1]) if len(words) > 1 else 8, place)
    finally:
        shutil.rmtree(place)
