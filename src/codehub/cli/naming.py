"""How people name things: by id, by name, or by the beginning of an id. What could mean several is refused.

A name goes before the beginning of an id, also that of something in the trash; and what begins an id has at least 8
characters of it, so that a short name that is gone does not mean another thing.
"""

import re
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar
from uuid import UUID

from codehub.cli.exits import CommandError, Exit
from codehub.cli.output import clean

if TYPE_CHECKING:
    from codehub.client import Client, Token, User, Workspace

T = TypeVar("T")
_SHOWN = 10
_BEGINNING = re.compile(r"[0-9a-f]{8}[0-9a-f-]{0,28}", re.IGNORECASE)


def workspace(client: "Client", text: str, *, deleted: bool = False) -> "Workspace":
    """One of the caller's own; for an administrator anybody's, by its whole id. `deleted` looks in the trash first."""
    if _is_id(text):
        return client.workspace(text)
    begun: list[Workspace] = []  # whose id begins so, in the first place that has any
    for trash in (True, False) if deleted else (False, True):
        found = matching(text, client.workspaces(deleted=trash), lambda one: str(one.id), lambda one: one.name)
        if any(one.name == text for one in found):
            return _the_one(text, found)
        begun = begun or found
    if begun:
        return _the_one(text, begun)
    raise _missing("workspace", text, "codehub ws list")


def _the_one(text: str, found: "Sequence[Workspace]") -> "Workspace":
    if len(found) > 1:
        raise _ambiguous("workspaces", text, [f"{one.id} ({clean(one.name)}, {one.phase})" for one in found])
    return found[0]


def user(client: "Client", text: str) -> "User":
    found = matching(text.lower(), client.users(), lambda one: str(one.id), lambda one: one.username.lower())
    if len(found) > 1:
        raise _ambiguous("users", text, [f"{one.id} ({clean(one.username)})" for one in found])
    if not found:
        raise _missing("user", text, "codehub user list")
    return found[0]


def token(client: "Client", text: str) -> "Token":
    found = matching(text, client.tokens(), lambda one: str(one.id), lambda one: one.name)
    if len(found) > 1:
        raise _ambiguous("tokens", text, [f"{one.id} ({clean(one.name)})" for one in found])
    if not found:
        raise _missing("token", text, "codehub token list")
    return found[0]


def matching(text: str, things: Iterable[T], id_of: Callable[[T], str], name_of: Callable[[T], str]) -> list[T]:
    """Those of that name; if there are none, those whose id begins so."""
    everything = list(things)
    named = [one for one in everything if name_of(one) == text]
    if named or not _BEGINNING.fullmatch(text):
        return named
    return [one for one in everything if id_of(one).startswith(text.lower())]


def shown_ids(ids: Sequence[str], least: int = 8) -> list[str]:
    """For a table: on a terminal as short as they can be told apart, in a pipe whole."""
    if not sys.stdout.isatty():
        return list(ids)
    length = least
    while length < 36 and len({one[:length] for one in ids}) < len(set(ids)):
        length += 1
    return [one[:length] for one in ids]


def _is_id(text: str) -> bool:
    try:
        return str(UUID(text)) == text.lower()
    except ValueError:
        return False


def _missing(kind: str, text: str, listing: str) -> CommandError:
    return CommandError(f"There is no {kind} called {clean(text)!r}.", f"See: {listing}", exit_code=Exit.NOT_FOUND)


def _ambiguous(kind: str, text: str, found: Sequence[str]) -> CommandError:
    more = [f"and {len(found) - _SHOWN} more"] if len(found) > _SHOWN else []
    named = ", ".join([*found[:_SHOWN], *more])
    return CommandError(
        f"{clean(text)!r} could be any of {len(found)} {kind}: {named}.", "Give the id.", exit_code=Exit.USAGE
    )
