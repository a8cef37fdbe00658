"""Who may do what: every route beside everybody who may come. This table is the test, and the page docs/api.md.

`python -m tests.api.access` prints the page.
"""

import sys
from dataclasses import dataclass
from enum import StrEnum
from typing import Any
from uuid import UUID

from fastapi import FastAPI

from codehub.metrics import Metrics
from codehub.web.app import create_app, include_api


class Who(StrEnum):
    """Whoever comes. The thing that a route is about belongs to the owner."""

    ANONYMOUS = "anonymous"
    EXPIRED = "expired session"
    READ_ONLY = "owner's read-only token"
    OWNER = "owner"
    OTHER = "other user"
    ADMIN = "administrator"


@dataclass(frozen=True)
class Route:
    """One route and the status that each gets, in the order of Who. `state` is the workspace it is tried on."""

    method: str
    path: str
    answers: tuple[int, int, int, int, int, int]
    body: Any = None
    state: str = "STANDBY"

    @property
    def name(self) -> str:
        return f"{self.method} {self.path}"

    def answer(self, who: Who) -> int:
        return self.answers[list(Who).index(who)]


WORKSPACE = "/workspaces/{workspace_id}"
NEW = {"name": "w", "desired_state": "ARCHIVED"}

#                                        anonymous, expired, read-only, owner, other, administrator
TABLE = (
    Route("GET", "/login", (200, 200, 200, 200, 200, 200)),
    Route("POST", "/login", (401, 401, 401, 401, 401, 401), {"username": "nobody", "password": "a wrong one"}),
    Route("GET", "/login/oidc", (404, 404, 404, 404, 404, 404)),
    Route("GET", "/login/oidc/callback", (404, 404, 404, 404, 404, 404)),
    Route("POST", "/logout/oidc", (404, 404, 404, 404, 404, 404)),
    Route("GET", "/login/link", (403, 403, 403, 403, 403, 403)),
    Route("POST", "/logout", (401, 401, 403, 204, 204, 204)),
    Route("GET", "/session", (401, 401, 200, 200, 200, 200)),
    Route("POST", "/session/proof", (401, 401, 403, 409, 409, 409), {"password": "x"}),
    Route("POST", "/password", (401, 401, 403, 409, 409, 409), {"current": "x", "new": "a much longer one"}),
    Route("GET", "/sessions", (401, 401, 403, 200, 200, 200)),
    Route("DELETE", "/sessions/{session_id}", (401, 401, 403, 204, 404, 404)),
    Route("GET", "/tokens", (401, 401, 200, 200, 200, 200)),
    Route("POST", "/tokens", (401, 401, 403, 201, 201, 201), {"name": "ci", "scope": "read"}),
    Route("DELETE", "/tokens/{token_id}", (401, 401, 403, 204, 404, 404)),
    Route("GET", "/users", (401, 401, 403, 403, 403, 200)),
    Route("POST", "/users", (401, 401, 403, 403, 403, 201), {"username": "{fresh}"}),
    Route("GET", "/users/{user_id}", (401, 401, 403, 403, 403, 200)),
    Route("PATCH", "/users/{user_id}", (401, 401, 403, 403, 403, 200), {"role": "user"}),
    Route("DELETE", "/users/{user_id}", (401, 401, 403, 403, 403, 204)),
    Route("GET", "/images", (401, 401, 200, 200, 200, 200)),
    Route("GET", "/workspaces", (401, 401, 200, 200, 200, 200)),
    Route("POST", "/workspaces", (401, 401, 403, 201, 201, 201), NEW),
    Route("GET", WORKSPACE, (401, 401, 200, 200, 404, 200)),
    Route("PATCH", WORKSPACE, (401, 401, 403, 200, 404, 200), {"memo": "m"}),
    Route("DELETE", WORKSPACE, (401, 401, 403, 202, 404, 202)),
    Route("POST", f"{WORKSPACE}/undelete", (401, 401, 403, 200, 404, 200), state="going"),
    Route("POST", f"{WORKSPACE}/recover", (401, 401, 403, 200, 404, 200), state="ERROR"),
    Route("POST", f"{WORKSPACE}/keep-awake", (401, 401, 403, 200, 404, 200), {"hours": 1}),
    Route("GET", f"{WORKSPACE}/history", (401, 401, 200, 200, 404, 200)),
    Route("GET", f"{WORKSPACE}/visits", (401, 401, 200, 200, 404, 200)),
    Route("GET", f"{WORKSPACE}/archives", (401, 401, 200, 200, 404, 200)),
    Route("GET", f"{WORKSPACE}/archive", (401, 401, 403, 409, 404, 409)),
    Route("GET", f"{WORKSPACE}/usage", (401, 401, 200, 200, 404, 200)),
    Route("GET", f"{WORKSPACE}/logs", (401, 401, 409, 409, 404, 409)),
    Route("GET", "/events", (401, 401, 200, 200, 200, 200)),
    Route("GET", "/admin/workspaces", (401, 401, 403, 403, 403, 200)),
    Route("GET", "/admin/limits", (401, 401, 403, 403, 403, 200)),
    Route("PUT", "/admin/limits", (401, 401, 403, 403, 403, 200), {"max_running_per_user": 2}),
    Route("GET", "/admin/audit.csv", (401, 401, 403, 403, 403, 200)),
    Route("GET", "/admin/audit", (401, 401, 403, 403, 403, 200)),
    Route("GET", "/admin/gc", (401, 401, 403, 403, 403, 200)),
    Route("GET", "/admin/health", (401, 401, 403, 403, 403, 200)),
    Route("GET", "/admin/figures", (401, 401, 403, 403, 403, 200)),
    Route("POST", "/admin/gc", (401, 401, 403, 403, 403, 202), {"dry_run": True}),
    Route(
        "POST",
        "/admin/gc/discard",
        (401, 401, 403, 403, 403, 404),
        {"keys": [f"{UUID(int=1)}/{UUID(int=2)}/home.tar.zst"]},
    ),
    Route("POST", "/admin/losses", (401, 401, 403, 403, 403, 204), {"backend": "docker"}),
)

_HEAD = """\
# The API

Made by `make docs` from the routes and from the table that tests hold every route to. The decisions behind it are in
[ADR 7](adr/0007-api.md); the whole contract, with every field and an example of every answer, is the OpenAPI that a
running CodeHub serves at `/api/v1/openapi.json`.

Everything is below `/api/v1` and JSON. Browsers have a session's cookie; programs send `Authorization: Bearer` with a
token (`POST /tokens`). Every error is `{"error": {"code", "message"}}`, sometimes with `details`: `message` is for
people and says what to do, `code` is stable and for programs.

- **Fresh proof**: users, roles, passwords and tokens are made and changed in a session only with the header
  `Login-Proof`; else it is 403 `proof_required`. A login returns a proof, and so does `POST /session/proof`; it
  counts for five minutes. API tokens need none.
- **Pages**: `next_cursor` of an answer is the next one's `cursor`; null is the end.
- **Lost updates**: send the `ETag` of what you have read as `If-Match`, and a change of anything newer is 412.
- **Limits**: one running workspace too many is 429; `details.running` lists what could be stopped.
- **Not now**: what does not go together with the present state is 409; `details` has phase, operation, desired_state.
- **Really?** A workspace in ERROR cannot be archived. Deleting one whose home is on its volume is 409
  `needs_confirmation`, which says what would be lost, until it is asked for with `?confirm=true`; a purge is not asked.
- **Away**: when something that is needed does not answer it is 503 within two seconds; `Retry-After` says when to ask
  again. It may have been done all the same. So GET, PATCH and DELETE are asked again (not with `If-Match`); a 409 then
  whose `details.desired_state` is what you asked for says that it was heard and is being done.
"""


def application() -> FastAPI:
    """Only to be looked at: it has nothing to work with."""
    app = create_app({}, Metrics())
    include_api(app)
    return app


def page() -> str:
    """docs/api.md."""
    paths = application().openapi()["paths"]
    lines = [_HEAD, "## Routes", "", "| route | what it does | query | body |", "|---|---|---|---|"]
    for route in TABLE:
        described = paths[f"/api/v1{route.path}"][route.method.lower()]
        summary = described["description"].partition("\n\n")[0].replace("\n", " ")
        query = ", ".join(f"`{each['name']}`" for each in described.get("parameters", ()) if each["in"] == "query")
        lines.append(f"| `{route.name}` | {summary} | {query} | {_body(described)} |")
    lines += ["", "## Who may do what", ""]
    lines += ["What each gets who tries; the thing it is about is the owner's.", ""]
    lines += [f"| route | {' | '.join(Who)} |", f"|---|{'---|' * len(Who)}"]
    lines += [f"| `{route.name}` | {' | '.join(str(route.answer(who)) for who in Who)} |" for route in TABLE]
    lines += [
        "",
        "`POST /login` is tried with a wrong password, what has `oidc` in it without a provider, `/login/link` from",
        "another machine, `POST /password` and `/session/proof` without a password, `…/logs` on a workspace that",
        "does not run, `…/archive` of one that was never archived.",
    ]
    return "\n".join(lines) + "\n"


def _body(described: dict[str, Any]) -> str:
    content = described.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
    references = [content, *content.get("anyOf", ())]
    named = [each["$ref"].rpartition("/")[2] for each in references if "$ref" in each]
    return f"`{named[0]}`" if named else ""


if __name__ == "__main__":
    sys.stdout.write(page())
