"""CodeHub as a person has it: `codehub up` in a process of its own, with real IDEs, visited with a browser."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit
from uuid import UUID

from playwright.async_api import BrowserContext

from codehub.client import Client
from codehub.drivers.process.layout import HOMES_SIGN
from tests.cli.codehub import Codehub, running
from tests.embedded.prepared import prepared
from tests.embedded.support import processes_at
from tests.lab.ides import folder as lab_ides
from tests.support import eventually, eventually_async, short_folder

PASSWORD = "correct horse battery"
PATH_MODE, OWN_ORIGINS = "127.0.0.1", "localhost"  # by which name CodeHub is visited


@dataclass(frozen=True)
class Site:
    """One that runs. `admin` is who the tests are, in the browser and beside it."""

    codehub: Codehub
    admin: Client

    def url(self, host: str) -> str:
        return f"http://{host}:{urlsplit(self.codehub.url).port}"

    async def log_in(self, context: BrowserContext, host: str) -> None:
        given = {"username": "admin", "password": PASSWORD}
        answer = await context.request.post(f"{self.url(host)}/api/v1/login", data=given)
        assert answer.ok, await answer.text()

    async def workspace(self, image_ref: str) -> UUID:
        """A new one that runs."""
        made = self.admin.create_workspace(image_ref, image_ref=image_ref)
        await self.becomes(made.id, "RUNNING")
        return made.id

    async def becomes(self, workspace: UUID, phase: str, seconds: float = 60.0) -> None:
        async def has() -> bool:
            now = self.admin.workspace(workspace)
            assert now.phase != "ERROR", now
            return now.phase == phase and now.operation == "NONE"

        await eventually_async(has, f"it is {phase}", seconds)

    def home(self, workspace: UUID) -> Path:
        (home,) = (self.codehub.data / f"workspaces/homes/ws-{workspace}-home").iterdir()
        return home


@contextmanager
def running_site(**settings: str) -> Iterator[Site]:
    """Afterwards nothing of it runs."""
    folder = short_folder()
    data = folder / "d"
    prepared(data)
    lab_ides().mkdir(parents=True, exist_ok=True)
    (data / "ide").symlink_to(lab_ides())
    given = {"CODEHUB_IMAGES": "test,jupyterlab,code-server", "CODEHUB_ADMIN_PASSWORD": PASSWORD}
    with running(data, folder / "out", **given, MAX_RUNNING_PER_USER="20", **settings) as codehub:
        eventually(codehub.is_ready, "it is ready", 60)
        with Client(codehub.url) as admin:
            admin.login("admin", PASSWORD)
            yield Site(codehub, admin)
            for workspace in admin.workspaces():
                admin.delete_workspace(workspace.id, purge=True, confirm=True)
            homes = data / "workspaces/homes"
            eventually(lambda: [path.name for path in homes.iterdir()] == [HOMES_SIGN], "the workspaces are gone", 60)
    eventually(lambda: not processes_at(folder), "no process is left over")
    shutil.rmtree(folder)
