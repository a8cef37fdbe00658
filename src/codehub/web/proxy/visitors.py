"""Who was let in: the gate's memory.

A route names the instance: its key is the workspace, the start that the instance came from, and its address. An address
that turns up as another workspace's is dropped wherever it was remembered before, so no memory leads to another's home.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from codehub.db.doors import Opened
from codehub.model.workspace import WorkspaceId
from codehub.web.proxy.addresses import address_of
from codehub.web.proxy.confining import policy_of
from codehub.web.proxy.knocking import Knock
from codehub.web.proxy.menu import tail_at
from codehub.web.proxy.ports import Route

_NEVER = float("-inf")


@dataclass(slots=True, eq=False)
class Visitor:
    """Somebody who was let in, and where they go. Times are monotonic."""

    knock: Knock
    opened: Opened
    route: Route
    confirmed_at: float
    suspected_at: float = _NEVER  # when something was heard about the workspace
    is_out: bool = False

    def suspect(self, now: float) -> None:
        """Something was heard about the workspace: the next request asks."""
        self.suspected_at = now
        self.route.good_until = _NEVER

    def confirm(self, at: float, trust_seconds: float) -> None:
        self.confirmed_at = max(self.confirmed_at, at)
        is_trusted = not self.is_out and self.confirmed_at > self.suspected_at
        self.route.good_until = self.confirmed_at + trust_seconds if is_trusted else _NEVER

    def is_known(self, since: float) -> bool:
        return not self.is_out and self.confirmed_at >= since and self.confirmed_at > self.suspected_at

    @property
    def workspace(self) -> WorkspaceId:
        return self.knock.door.to.workspace


@dataclass(slots=True)
class Visitors:
    """All of them."""

    trust_seconds: float  # how old what we know may be
    is_guarded: bool = True  # pages of path mode are confined
    cut_off: int = 0  # visitors who had something open when they had to leave
    _inside: dict[Knock, Visitor] = field(default_factory=dict)
    _of: dict[WorkspaceId, set[Visitor]] = field(default_factory=dict)
    _at: dict[str, WorkspaceId] = field(default_factory=dict)  # whose an endpoint is
    _left: dict[WorkspaceId, float] = field(default_factory=dict)  # last uses by those who are no longer inside

    def get(self, knock: Knock) -> Visitor | None:
        return self._inside.get(knock)

    def all(self) -> Sequence[Visitor]:
        return list(self._inside.values())

    def workspaces(self) -> Sequence[WorkspaceId]:
        return list(self._of)

    def of(self, workspace: WorkspaceId) -> Sequence[Visitor]:
        return list(self._of.get(workspace, ()))

    def settle(self, knock: Knock, opened: Opened | None, asked_at: float, *, is_new: bool) -> None:
        """What the database says of a door: who is inside stays, leaves, or goes to another instance."""
        visitor = self._inside.get(knock)
        if visitor is not None and opened is not None and _is_same_instance(visitor.opened, opened):
            visitor.opened = opened
            visitor.confirm(asked_at, self.trust_seconds)
            return
        if visitor is not None:
            self.show_out(visitor)
        if opened is not None and (is_new or visitor is not None):
            self._let_in(knock, opened, asked_at, time.monotonic() if visitor is None else visitor.route.used_at)

    def _let_in(self, knock: Knock, opened: Opened, asked_at: float, used_at: float) -> None:
        to = knock.door.to
        before = self._at.get(opened.endpoint, to.workspace)
        if before != to.workspace:
            for other in self.of(before):
                if other.opened.endpoint == opened.endpoint:
                    self.show_out(other)
        address = address_of(opened.endpoint, to.port)
        route = Route(
            key=f"{to.workspace} {opened.op_id} {to.port} {address}",  # text: its hash is reckoned once
            address=address,
            workspace=to.workspace,
            port=to.port,
            strip=knock.strip,
            cookie_path=knock.strip + b"/",
            policy=policy_of(knock.host, knock.strip) if knock.strip and self.is_guarded else b"",
            tail=tail_at(knock.strip) if to.port is None else b"",
            used_at=used_at,
        )
        visitor = self._inside[knock] = Visitor(knock, opened, route, asked_at)
        visitor.confirm(asked_at, self.trust_seconds)
        self._of.setdefault(to.workspace, set()).add(visitor)
        self._at[opened.endpoint] = to.workspace

    def show_out(self, visitor: Visitor) -> None:
        """They are forgotten, and whatever they have open ends."""
        visitor.is_out = visitor.route.is_over = True
        visitor.route.good_until = _NEVER
        self._inside.pop(visitor.knock, None)
        others = self._of.get(visitor.workspace, set())
        others.discard(visitor)
        if not others:
            self._of.pop(visitor.workspace, None)
        if self._at.get(visitor.opened.endpoint) == visitor.workspace and not others:
            del self._at[visitor.opened.endpoint]
        _latest(self._left, visitor)
        self.cut_off += bool(visitor.route.open)
        for exchange in list(visitor.route.open):
            exchange.end()

    def forget_idle(self, before: float) -> None:
        for visitor in self.all():
            if not visitor.route.open and visitor.route.used_at < before:
                self.show_out(visitor)

    def show_out_unconfirmed(self, before: float) -> None:
        for visitor in self.all():
            if visitor.confirmed_at < before:
                self.show_out(visitor)

    def logins_in_use(self, since: float) -> tuple[Sequence[UUID], Sequence[UUID]]:
        """Sessions and tokens that something was done with, and of which that is not noted yet."""
        used = [each.opened for each in self._inside.values() if each.route.used_at > since and each.opened.is_stale]
        return list({each.session for each in used if each.session}), list({each.token for each in used if each.token})

    def uses(self) -> dict[WorkspaceId, float]:
        """When each workspace was last used, as far as anybody was there."""
        found = dict(self._left)
        for visitor in self._inside.values():
            _latest(found, visitor)
        return found

    def forget_uses(self, reported: Mapping[WorkspaceId, float]) -> None:
        """These need not be kept here any more."""
        self._left = {which: at for which, at in self._left.items() if at > reported.get(which, _NEVER)}


def _is_same_instance(one: Opened, other: Opened) -> bool:
    return one.endpoint == other.endpoint and one.op_id == other.op_id


def _latest(uses: dict[WorkspaceId, float], visitor: Visitor) -> None:
    uses[visitor.workspace] = max(uses.get(visitor.workspace, _NEVER), visitor.route.used_at)
