"""The client: one method for each thing that the API offers, in the words of the API."""

import base64
import hashlib
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, BinaryIO
from uuid import UUID

import httpx

from codehub.client.errors import NOT_CODEHUB, ApiError
from codehub.client.events import Events
from codehub.client.http import API, Http
from codehub.client.models import (
    Archive,
    AuditEntry,
    GcAccepted,
    GcRun,
    HistoryEntry,
    Images,
    Json,
    Limits,
    Logs,
    NewToken,
    Page,
    Session,
    Token,
    Usage,
    User,
    Workspace,
)

PAGE = 100
DOWNLOAD_SILENCE_SECONDS = 90.0  # the server asks the store for a part of an archive for a minute
Id = UUID | str


class Client(Http):
    """One server, as one user. Give a token, or call `login`."""

    # -- who I am

    def login(self, username: str, password: str) -> User:
        """A session of this client's own; it is ended by `logout`, never kept anywhere."""
        response = self.call("POST", f"{API}/login", json={"username": username, "password": password})
        self.use_cookies_of(response)
        answer = self.read(_LoginAnswer, response)
        if answer.proof is not None:
            self.prove_with(answer.proof)
        return answer.user

    def logout(self, *, everywhere: bool = False) -> None:
        self.call("POST", f"{API}/logout", params={"everywhere": _flag(everywhere)})

    def session(self) -> Session:
        return self.get(Session, f"{API}/session")

    def change_password(self, current: str, new: str) -> None:
        self.call("POST", f"{API}/password", json={"current": current, "new": new})

    # -- workspaces

    def workspaces(
        self, *, phase: str | None = None, q: str | None = None, deleted: bool = False, everybody: bool = False
    ) -> Iterator[Workspace]:
        """All of them, newest first, page by page; `everybody` is for administrators."""
        path = f"{API}/admin/workspaces" if everybody else f"{API}/workspaces"
        yield from self._all(Page[Workspace], path, phase=phase, q=q or None, deleted=_flag(deleted))

    def workspace(self, identity: Id) -> Workspace:
        return self.get(Workspace, _workspace(identity))

    def create_workspace(self, name: str, **given: object) -> Workspace:
        """`given`: image_ref, backend, description, memo, desired_state, TTLs, from_archive."""
        body = {"name": name} | {field: value for field, value in given.items() if value is not None}
        return self.read(Workspace, self.call("POST", f"{API}/workspaces", json=body))

    def update_workspace(self, identity: Id, *, if_match: str | None = None, **changes: object) -> Workspace:
        headers = {"If-Match": if_match} if if_match else None
        return self.read(Workspace, self.call("PATCH", _workspace(identity), json=changes, headers=headers))

    def set_state(self, identity: Id, desired: str, *, safe_mode: bool | None = None) -> Workspace:
        """Ask for RUNNING, STANDBY or ARCHIVED; for RUNNING maybe in safe mode."""
        mode: Json = {} if safe_mode is None else {"safe_mode": safe_mode}
        try:
            return self.update_workspace(identity, desired_state=desired, **mode)
        except ApiError as error:
            if not _was_heard(error, desired):
                raise
        return self.workspace(identity)

    def delete_workspace(self, identity: Id, *, purge: bool = False, confirm: bool = False) -> Workspace:
        """Refused with the code `needs_confirmation` where a home would be lost by it, unless `confirm` is given."""
        params = {"purge": _flag(purge), "confirm": _flag(confirm)}
        try:
            return self.read(Workspace, self.call("DELETE", _workspace(identity), params=params))
        except ApiError as error:
            if purge or not _was_heard(error, "DELETED"):
                raise
        return self.workspace(identity)

    def undelete_workspace(self, identity: Id) -> Workspace:
        return self._verb(identity, "undelete", None)

    def recover_workspace(
        self,
        identity: Id,
        source: str | None = None,
        *,
        forced: bool = False,
        desired: str | None = None,
        safe_mode: bool | None = None,
    ) -> Workspace:
        body: Json = {"forced": forced} | ({"from": source} if source else {})
        body |= {"desired_state": desired} if desired else {}
        body |= {} if safe_mode is None else {"safe_mode": safe_mode}
        return self._verb(identity, "recover", body)

    def keep_awake(self, identity: Id, hours: float) -> Workspace:
        """0 ends it."""
        return self._verb(identity, "keep-awake", {"hours": hours})

    def logs(self, identity: Id, *, lines: int | None = None) -> Logs:
        """The newest lines; only of one that runs."""
        return self.get(Logs, f"{_workspace(identity)}/logs", lines=lines)

    def archives(self, identity: Id) -> Sequence[Archive]:
        """What the archive store has of it, newest first."""
        return self.get(Page[Archive], f"{_workspace(identity)}/archives").items

    def download(self, identity: Id, into: BinaryIO, *, op_id: Id | None = None) -> Iterator[int]:
        """Write the last archive, or that of the operation; yields how many bytes came so far.

        Raises ApiError if it is not what the server says that it is.
        """
        path = f"{_workspace(identity)}/archive" + (f"?op_id={op_id}" if op_id is not None else "")
        digest, done = hashlib.sha256(), 0
        with self.stream(path, read_seconds=DOWNLOAD_SILENCE_SECONDS, accept="*/*") as response:
            size = int(response.headers.get("content-length", 0))
            for data in response.iter_raw():
                into.write(data)
                digest.update(data)
                done += len(data)
                yield done
        wanted = f"sha-256=:{base64.b64encode(digest.digest()).decode()}:"
        if done != size or response.headers.get("repr-digest", wanted) != wanted:
            raise ApiError("The archive did not arrive as it was sent. Download it again.", code="damaged")

    def usage(self, identity: Id) -> Usage:
        """What it uses while it runs."""
        return self.get(Usage, f"{_workspace(identity)}/usage")

    def history(self, identity: Id, *, limit: int | None = None) -> Iterator[HistoryEntry]:
        """Newest first; `limit` of them, or all."""
        path, left = f"{_workspace(identity)}/history", limit
        for entry in self._all(Page[HistoryEntry], path, page=min(limit or PAGE, PAGE)):
            if left is not None:
                if left <= 0:
                    return
                left -= 1
            yield entry

    def events(self) -> Events:
        """What happens to the caller's workspaces, from a snapshot on, until it is closed."""
        return Events(self)

    def images(self) -> Images:
        return self.get(Images, f"{API}/images")

    # -- tokens

    def tokens(self) -> Sequence[Token]:
        return self.get(Page[Token], f"{API}/tokens").items

    def create_token(self, name: str, *, scope: str = "write", expires_in_days: int | None = None) -> NewToken:
        body: Json = {"name": name, "scope": scope}
        if expires_in_days is not None:
            body["expires_in_days"] = expires_in_days
        return self.read(NewToken, self.call("POST", f"{API}/tokens", json=body))

    def revoke_token(self, identity: Id) -> None:
        try:
            self.call("DELETE", f"{API}/tokens/{identity}")
        except ApiError as error:
            if not (error.is_repeated and error.status == httpx.codes.NOT_FOUND):
                raise

    # -- for administrators

    def users(self) -> Iterator[User]:
        yield from self._all(Page[User], f"{API}/users")

    def create_user(self, username: str, password: str | None, *, role: str = "user") -> User:
        body = {"username": username, "password": password, "role": role}
        return self.read(User, self.call("POST", f"{API}/users", json=body))

    def update_user(self, identity: Id, **changes: object) -> User:
        """`changes`: role, disabled, password."""
        return self.read(User, self.call("PATCH", f"{API}/users/{identity}", json=changes))

    def delete_user(self, identity: Id, workspaces: str | None = None) -> None:
        """`workspaces`: trash or purge, what becomes of theirs."""
        self.call("DELETE", f"{API}/users/{identity}", params={"workspaces": workspaces} if workspaces else None)

    def limits(self) -> Limits:
        return self.get(Limits, f"{API}/admin/limits")

    def audit(self) -> Iterator[AuditEntry]:
        yield from self._all(Page[AuditEntry], f"{API}/admin/audit")

    def gc_runs(self) -> Iterator[GcRun]:
        """Collections, newest first."""
        yield from self._all(Page[GcRun], f"{API}/admin/gc")

    def request_gc(
        self, *, dry_run: bool = False, override: bool = False, unknown_too: bool = False, orphans: bool = False
    ) -> UUID:
        """Ask for a collection; `gc_runs` says what came of it."""
        body = {"dry_run": dry_run, "override": override, "unknown_too": unknown_too}
        body |= {"orphans": True} if orphans else {}  # which an earlier server does not know
        return self.read(GcAccepted, self.call("POST", f"{API}/admin/gc", json=body)).id

    def discard_archives(self, keys: Sequence[str]) -> None:
        """Say that nobody wants these archives, which the database does not remember."""
        self.call("POST", f"{API}/admin/gc/discard", json={"keys": list(keys)})

    def accept_losses(self, backend: str) -> None:
        """Say that the homes which this backend lacks are lost."""
        self.call("POST", f"{API}/admin/losses", json={"backend": backend})

    # -- the server itself

    def readiness(self) -> tuple[Json, datetime | None]:
        """What /readyz says, ready or not, and the server's clock."""
        with self.reaching():
            response = self._client.get("/readyz")
        try:
            body = response.json()
            assert isinstance(body["dependencies"], dict)
        except (ValueError, KeyError, TypeError, AssertionError):
            raise ApiError(
                f"{self.url} does not answer as CodeHub does. Check the URL.",
                code=NOT_CODEHUB,
                status=response.status_code,
            ) from None
        return body, _date_of(response)

    # -- the rest

    def _verb(self, identity: Id, verb: str, body: Json | None) -> Workspace:
        return self.read(Workspace, self.call("POST", f"{_workspace(identity)}/{verb}", json=body))

    def _all(self, kind: type[Page[Any]], path: str, *, page: int = PAGE, **params: object) -> Iterator[Any]:
        cursor: str | None = None
        while True:
            found = self.get(kind, path, limit=page, cursor=cursor, **params)
            yield from found.items
            cursor = found.next_cursor
            if cursor is None:
                return


class _LoginAnswer(Session):
    """Of a login; a server of an earlier version gives no proof, and asks for none."""

    proof: str | None = None


def _workspace(identity: Id) -> str:
    return f"{API}/workspaces/{identity}"


def _was_heard(error: ApiError, desired: str) -> bool:
    """Whether it is refused only because the first attempt was heard, and is now being done."""
    is_conflict = error.is_repeated and error.status == httpx.codes.CONFLICT
    return is_conflict and error.details.get("desired_state") == desired


def _flag(value: bool) -> str | None:
    return "true" if value else None


def _date_of(response: httpx.Response) -> datetime | None:
    try:
        return parsedate_to_datetime(response.headers["date"]).astimezone(UTC)
    except (KeyError, ValueError, TypeError):
        return None
