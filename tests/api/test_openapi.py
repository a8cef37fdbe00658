"""Schemathesis over the whole OpenAPI, against a real server with a real PostgreSQL and Redis.

Whatever is sent, nothing breaks, and every answer is one that the contract describes.
"""

import asyncio
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

import psycopg
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from schemathesis import checks
from schemathesis.core.result import Ok

from codehub.db.pool import Role, open_pool
from codehub.model.workspace import WorkspaceId
from codehub.services.actors import UserRole
from tests.accounts.people import Person, add_person, token_headers
from tests.api.access import application
from tests.api.served import served
from tests.db.support import add_workspace
from tests.support import Databases

EXAMPLES = int(os.environ.get("EXAMPLES", "5"))  # of each operation, meant well and meant badly
CHECKS: list[Any] = [
    checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
]
REFUSED_EARLIER = {  # by the server, before the application: no answers of an operation's, and no JSON
    b"Invalid HTTP request received.": 400,
    b"The head of the request is too large.\n": 431,  # such as an address of 64 KB
}
ENDLESS = "/api/v1/events"  # an answer without an end is test_access.py's

SCHEMA = schemathesis.openapi.from_dict(application().openapi())
OPERATIONS = {
    operation.label: operation
    for operation in (each.ok() for each in SCHEMA.get_all_operations() if isinstance(each, Ok))
    if operation.path != ENDLESS
}


@dataclass
class Server:
    """Where it is, whose token is used, and workspaces in every state."""

    url: str
    headers: dict[str, str]
    workspaces: list[WorkspaceId]


@pytest.fixture(scope="module")
def server(databases: Databases, migrated_template: str, server_redis: str) -> Iterator[Server]:
    with databases.one(migrated_template) as url:
        headers, workspaces = asyncio.run(_populated(url))
        with served(url, server_redis) as address:
            yield Server(address, headers, workspaces)


async def _populated(url: str) -> tuple[dict[str, str], list[WorkspaceId]]:
    async with (
        open_pool(url, Role.API) as pool,
        await psycopg.AsyncConnection.connect(url, autocommit=True) as conn,
    ):
        root: Person = await add_person(pool, "root", UserRole.ADMIN)
        add = partial(add_workspace, conn, owner_user_id=root.id)
        ids = [await add(phase=phase, desired_state=phase) for phase in ("RUNNING", "STANDBY", "ARCHIVED")]
        ids.append(await add(phase="ERROR", error_reason="Timeout"))
        ids.append(await add(phase="STANDBY", operation="STARTING"))
        ids.append(await add(phase="DELETING", desired_state="DELETED", deleted_at=datetime.now(UTC), archive_key="a"))
        await conn.execute(
            """INSERT INTO workspace_history (workspace_id, at, phase, operation)
               SELECT id, now(), phase, operation FROM workspaces"""
        )
        return await token_headers(pool, root), ids


@pytest.mark.filterwarnings("ignore::hypothesis.errors.HypothesisDeprecationWarning")  # Schemathesis' own
@pytest.mark.parametrize("label", OPERATIONS)
@pytest.mark.parametrize("mode", schemathesis.GenerationMode)
def test_every_answer_is_one_that_the_contract_describes(
    server: Server, label: str, mode: schemathesis.GenerationMode
) -> None:
    operation = OPERATIONS[label]
    existing = st.sampled_from(server.workspaces)
    names = {each.name for each in operation.path_parameters.items}

    @settings(
        max_examples=EXAMPLES,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
        database=None,
    )
    @given(case=operation.as_strategy(mode), workspace=existing, somewhere=st.booleans())
    def run(case: "schemathesis.Case[Any]", workspace: WorkspaceId, somewhere: bool) -> None:
        if "workspace_id" in names and somewhere:
            case.path_parameters["workspace_id"] = str(workspace)
        with requests.Session() as session:
            response = case.call(base_url=server.url, session=session, headers=server.headers, timeout=20)
        if response.content in REFUSED_EARLIER:
            assert response.status_code == REFUSED_EARLIER[response.content]
        else:
            case.validate_response(response, checks=CHECKS)

    with suppress(Unsatisfiable):  # nothing about this operation can be wrong
        run()
