"""The installation that the time travel drill is made on: `codehub up` on this machine's data directory."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from codehub.cli.exits import CommandError
from codehub.client import ApiError, Client

START_SECONDS = 120.0
_COMMAND_SECONDS = 600.0


class Embedded:
    """Starts, stops, backs up and restores it by its own commands. Implements drills.travelling.Installation."""

    def __init__(self, data_dir: Path, url: str, token: str) -> None:
        self._data_dir, self._url, self._token = data_dir, url, token
        self._folder = tempfile.TemporaryDirectory(prefix="codehub-time-travel-")
        self._up: subprocess.Popen[bytes] | None = None
        port = urlsplit(url).port
        given = {"CODEHUB_DATA_DIR": str(data_dir), "GC_ORPHAN_DELAY_SECONDS": "1"}
        self._environment = {**os.environ, **given, **({"CODEHUB_PORT": str(port)} if port else {})}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.stop()
        finally:
            self._folder.cleanup()

    def start(self) -> Client:
        log = Path(self._folder.name) / "log"
        with log.open("wb") as out:
            self._up = subprocess.Popen(
                [sys.executable, "-m", "codehub", "up"],
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
            )
        client = Client(self._url, self._token)
        until = time.monotonic() + START_SECONDS
        while self._up.poll() is None and time.monotonic() < until:
            try:
                client.session()
            except ApiError as error:
                if error.status == 401:
                    raise CommandError(
                        f"The token for {self._url} is not this installation's.", f"codehub login {self._url}"
                    ) from None
                time.sleep(0.2)
            else:
                return client
        last = log.read_text(errors="replace").strip().splitlines()[-1:] or ["It said nothing."]
        raise CommandError("codehub up did not start.", last[0])

    def stop(self) -> None:
        if self._up is None:
            return
        self._up.send_signal(signal.SIGINT)
        try:
            self._up.wait(60)
        except subprocess.TimeoutExpired:
            self._up.kill()
            self._up.wait()
        self._up = None

    def home(self, identity: str) -> Path | None:
        folder = self._data_dir / "workspaces" / "homes" / f"ws-{identity}-home"
        return next((one for one in folder.glob("*") if one.is_dir()), None)

    def back_up(self) -> None:
        self._command("backup", self._backup)

    def restore(self) -> None:
        self._command("restore", self._backup, "--force", "--yes")

    def adopt(self, identity: str, name: str) -> None:
        me = Client(self._url, self._token).session().user.username
        store = self._data_dir / "archives"
        found = sorted(store.rglob(f"{identity}/*/home.tar.zst"))
        for archive in found[-1:]:
            key = "/".join(archive.parts[-3:])
            self._command("adopt", key, "--owner", me, "--name", name)

    @property
    def _backup(self) -> str:
        return str(Path(self._folder.name) / "drill.backup")

    def _command(self, *arguments: str) -> None:
        try:
            done = subprocess.run(  # noqa: S603 - our own command
                [sys.executable, "-m", "codehub", *arguments],
                env=self._environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=_COMMAND_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise CommandError(f"codehub {arguments[0]} took too long.") from None
        if done.returncode:
            last = done.stderr.strip().splitlines()[-1:] or [""]
            raise CommandError(f"codehub {arguments[0]} failed.", last[0])
