"""A store that fills up under many workspaces, and has room again: `codehub up` on a small file system (root, Linux).

All workspaces are stopped, then asked to be archived, into a folder that has room for half of them. Told are how many
were archived until the store was full, how many were in ERROR at any time, what the leader and `codehub doctor` said,
and how many seconds after there was room again the last one was archived, with nobody's help.

`python -m bench.full_store NUMBER` takes as many (100).
"""

import json
import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import httpx

from bench.spawn import settings
from tests.cli import codehub
from tests.support import short_folder

HOME_BYTES = 1 << 20
FULL_SECONDS = 40.0
_PAUSE_SECONDS = 0.5
_LIMIT_SECONDS = 900.0


def everybody(client: httpx.Client) -> list[dict[str, str]]:
    found, cursor = [], ""
    while True:
        page = client.get("/api/v1/workspaces", params={"limit": 100, **({"cursor": cursor} if cursor else {})}).json()
        found += page["items"]
        cursor = page.get("next_cursor") or ""
        if not cursor:
            return found


def ask(client: httpx.Client, wanted: str) -> None:
    for row in everybody(client):
        while client.patch(f"/api/v1/workspaces/{row['id']}", json={"desired_state": wanted}).status_code >= 400:
            time.sleep(_PAUSE_SECONDS)


def until(client: httpx.Client, is_over: Callable[[Counter[str]], bool]) -> tuple[float, int]:
    """Seconds, and the most that were in ERROR meanwhile."""
    began, worst = time.monotonic(), 0
    while True:
        at_rest = [row for row in everybody(client) if row["operation"] == "NONE"]
        phases = Counter(row["phase"] for row in at_rest)
        worst = max(worst, phases["ERROR"])
        if is_over(phases):
            return time.monotonic() - began, worst
        if time.monotonic() - began > _LIMIT_SECONDS:
            raise SystemExit(f"not within {_LIMIT_SECONDS:g} s: {dict(phases)}")
        time.sleep(_PAUSE_SECONDS)


def doctor(data: Path, store: Path) -> list[str]:
    given = codehub.environment(CODEHUB_DATA_DIR=str(data), ARCHIVE_URL=store.as_uri(), CODEHUB_IMAGES="test")
    command = [sys.executable, "-m", "codehub", "doctor", "--json"]
    said = subprocess.run(command, env=given, capture_output=True, text=True, check=False).stdout
    told = [one for one in json.loads(said) if str(one.get("code", "")).startswith("CH-STO")]
    return [f"{one['code']}: {one['detail']}" for one in told]


def run(number: int, folder: Path, store: Path) -> None:
    given = {**settings(number), "ARCHIVE_URL": store.as_uri(), "CODEHUB_LOG_LEVEL": "warning"}
    with codehub.running(folder / "data", folder / "log", **given) as up:
        base = up.url.partition("#")[0].partition("?")[0].rstrip("/")
        with httpx.Client(base_url=base, timeout=60, trust_env=False) as client:
            account = {"username": "admin", "password": given["CODEHUB_ADMIN_PASSWORD"]}
            client.post("/api/v1/login", json=account).raise_for_status()
            client.headers["Origin"] = base
            for each in range(number):
                new = {"name": f"w{each}", "desired_state": "STANDBY"}
                client.post("/api/v1/workspaces", json=new).raise_for_status()
            until(client, lambda phases: phases["STANDBY"] == number)
            for home in (folder / "data" / "workspaces" / "homes").glob("*/*"):
                (home / "large").write_bytes(os.urandom(HOME_BYTES))
                os.chown(home / "large", home.stat().st_uid, home.stat().st_gid)
            ask(client, "ARCHIVED")
            _, first = until(client, lambda _: "archive store" in up.dependencies()["coordinator"].get("detail", ""))
            began = time.monotonic()
            _, worst = until(client, lambda _: time.monotonic() - began > FULL_SECONDS)
            worst = max(first, worst)
            done = Counter(row["phase"] for row in everybody(client))["ARCHIVED"]
            print(f"full for {FULL_SECONDS:g} s: {done} of {number} archived, {worst} in ERROR", flush=True)
            print(f"/readyz: {client.get('/readyz').status_code} {json.dumps(up.dependencies().get('coordinator'))}")
            print("\n".join(doctor(folder / "data", store)), flush=True)
            subprocess.run(["mount", "-o", "remount,size=4g", store], check=True)
            seconds, worst = until(client, lambda phases: phases["ARCHIVED"] == number)
            print(f"room again: all {number} archived after {seconds:.0f} s, {worst} in ERROR", flush=True)
            ask(client, "STANDBY")
            seconds, worst = until(client, lambda phases: phases["STANDBY"] == number)
            sizes = {path.stat().st_size for path in (folder / "data" / "workspaces" / "homes").glob("*/*/large")}
            print(f"all {number} restored after {seconds:.0f} s, {worst} in ERROR; sizes of what was in them: {sizes}")


if __name__ == "__main__":
    many = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    place, disk = short_folder(), short_folder()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={many * HOME_BYTES // 2}", "small", disk], check=True)
    try:
        run(many, place, disk)
    finally:
        subprocess.run(["umount", "-l", disk], check=True)
        shutil.rmtree(place)
        disk.rmdir()
