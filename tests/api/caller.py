"""Somebody who calls the API, and rows as the coordinator leaves them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import httpx

from codehub.db.pool import Connection
from codehub.model.names import archive_key
from codehub.model.workspace import OpId, WorkspaceId
from tests.accounts.people import Person
from tests.db.support import add_workspace

API = "/api/v1"


@dataclass
class Caller:
    """A person with a token."""

    http: httpx.AsyncClient
    person: Person
    headers: Mapping[str, str] = field(default_factory=dict)

    async def call(self, method: str, path: str, body: Any = None, **more: Any) -> httpx.Response:
        headers = {**self.headers, **more.pop("headers", {})}
        if body is not None:  # in ASCII: JSON can say more than UTF-8 can
            more["content"] = json.dumps(body)
            headers["Content-Type"] = "application/json"
        return await self.http.request(method, API + path, headers=headers, **more)

    async def get(self, path: str, **more: Any) -> httpx.Response:
        return await self.call("GET", path, **more)

    async def post(self, path: str, body: Any = None, **more: Any) -> httpx.Response:
        return await self.call("POST", path, body, **more)

    async def patch(self, path: str, body: Any, **more: Any) -> httpx.Response:
        return await self.call("PATCH", path, body, **more)

    async def delete(self, path: str, **more: Any) -> httpx.Response:
        return await self.call("DELETE", path, **more)

    async def has(self, conn: Connection, phase: str = "STANDBY", **columns: Any) -> WorkspaceId:
        """A workspace of the person's that rests in this phase."""
        desired = columns.pop("desired_state", "RUNNING" if phase == "ERROR" else phase)
        row = {"phase": phase, "desired_state": desired, **columns}
        return await add_workspace(conn, owner_user_id=self.person.id, **row)

    async def has_archived(self, conn: Connection, **columns: Any) -> WorkspaceId:
        """One whose home is in an archive and nowhere else."""
        identity = WorkspaceId(uuid4())
        row = {
            "id": identity,
            "archive_key": archive_key(identity, OpId(uuid4())),
            "conditions": {
                "storage.volume_ready": {"status": False, "reason": "VolumeNotFound"},
                "infra.container_ready": {"status": False, "reason": "ContainerNotFound"},
                "storage.archive_ready": {"status": True, "reason": "ArchiveUploaded"},
            },
            **columns,
        }
        return await self.has(conn, row.pop("phase", "ARCHIVED"), **row)


def error(response: httpx.Response) -> tuple[int, str]:
    """The status and the code of an error, whose shape is checked."""
    body = response.json()
    assert set(body) == {"error"}, body
    assert {"code", "message"} <= set(body["error"]) <= {"code", "message", "details"}
    assert body["error"]["message"].endswith("."), body
    return response.status_code, body["error"]["code"]
