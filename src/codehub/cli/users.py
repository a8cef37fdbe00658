"""`codehub user`: accounts, for administrators; and one's own password."""

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from codehub.cli import naming, options, output
from codehub.cli.connecting import connected
from codehub.cli.exits import CommandError, Exit
from codehub.cli.proving import in_session, proven

if TYPE_CHECKING:
    from codehub.config import Settings
    from codehub.db.accounts import UserRow

app = typer.Typer(help="Users, for administrators.", no_args_is_help=True)

ROLES = ("user", "admin")
Username = Annotated[str, typer.Argument(metavar="USER", help="Their name or id.")]


@app.command(name="list")
def list_command(json: options.Json = False) -> None:
    """Show every user."""
    with connected() as client:
        found = list(client.users())
    if json:
        output.print_json(found)
        return
    rows = [
        [one.username, one.role, one.login, "disabled" if one.disabled else "", output.ago(one.created_at), identity]
        for one, identity in zip(found, naming.shown_ids([str(one.id) for one in found]), strict=True)
    ]
    output.print_table(["USER", "ROLE", "LOGIN", "STATE", "CREATED", "ID"], rows)


@app.command()
def create(
    username: Annotated[str, typer.Argument(metavar="USERNAME", help="What they log in as.")],
    admin: Annotated[bool, typer.Option("--admin", help="An administrator.")] = False,
    no_password: Annotated[bool, typer.Option("--no-password", help="They cannot log in with a password.")] = False,
    password_stdin: options.PasswordStdin = False,
    json: options.Json = False,
) -> None:
    """Add a user; asks for their password.

    It asks for your own first, unless that is in CODEHUB_PASSWORD; with --password-stdin that is the first line and
    theirs the second. A user without a password needs yours only to be an administrator.
    """
    with connected() if no_password and not admin else in_session(from_stdin=password_stdin) as client:
        password = None if no_password else options.new_password(from_stdin=password_stdin)
        made = client.create_user(username, password, role="admin" if admin else "user")
    if json:
        output.print_json(made)
    else:
        output.say(f"{output.clean(made.username)} was added.")


@app.command()
def disable(user: Username, yes: options.Yes = False, json: options.Json = False) -> None:
    """Lock a user out; nothing of theirs is deleted.

    Their sessions and tokens end, their workspaces stop.
    """
    with connected() as client:
        found = naming.user(client, user)
        name = output.clean(found.username)
        options.confirm(f"{name}'s sessions and tokens end at once and their workspaces stop. Disable {name}?", yes=yes)
        changed = client.update_user(found.id, disabled=True)
    _done(changed, "is disabled", json=json)


@app.command()
def enable(user: Username, password_stdin: options.PasswordStdin = False, json: options.Json = False) -> None:
    """Let a disabled user in again.

    For an administrator it asks for your own password, unless that is in CODEHUB_PASSWORD.
    """
    with connected() as client:
        found = naming.user(client, user)
    with in_session(from_stdin=password_stdin) if found.role == "admin" else connected() as client:
        changed = client.update_user(found.id, disabled=False)
    _done(changed, "is enabled", json=json)


@app.command()
def delete(
    user: Username,
    purge: Annotated[bool, typer.Option("--purge", help="Their workspaces too, for good.")] = False,
    yes: options.Yes = False,
    password_stdin: options.PasswordStdin = False,
    json: options.Json = False,
) -> None:
    """Delete a user; their workspaces go to the trash.

    It asks for your own password, unless that is in CODEHUB_PASSWORD.
    """
    with connected() as client:
        found = naming.user(client, user)
    name = output.clean(found.username)
    becomes = "are deleted for good" if purge else "go to the trash"
    options.confirm(f"{name}'s account is deleted for good, and their workspaces {becomes}. Delete {name}?", yes=yes)
    with in_session(from_stdin=password_stdin) as session:
        session.delete_user(found.id, "purge" if purge else "trash")
    _done(found, "is deleted", json=json)


@app.command()
def role(
    user: Username,
    role: Annotated[str, typer.Argument(metavar="ROLE", help=f"One of: {', '.join(ROLES)}.")],
    password_stdin: options.PasswordStdin = False,
    json: options.Json = False,
) -> None:
    """Make a user an administrator, or no longer.

    To make one it asks for your own password, unless that is in CODEHUB_PASSWORD.
    """
    if role not in ROLES:
        raise CommandError(f"There is no role {role!r}.", f"Choose one of: {', '.join(ROLES)}.", exit_code=Exit.USAGE)
    words = f"is {'an administrator' if role == 'admin' else 'an ordinary user'} now"
    with connected() as client:
        found = naming.user(client, user)
    with in_session(from_stdin=password_stdin) if role == "admin" else connected() as client:
        changed = client.update_user(found.id, role=role)
    _done(changed, words, json=json)


@app.command()
def password(
    user: Annotated[str | None, typer.Argument(metavar="USER", help="Whose. [default: your own]")] = None,
    password_stdin: options.PasswordStdin = False,
    json: options.Json = False,
) -> None:
    """Set a user's password, or change your own.

    It asks for your own, present one first, unless that is in CODEHUB_PASSWORD; with --password-stdin that is the first
    line and the new one the second.
    """
    if user is None:
        _own_password(from_stdin=password_stdin, json=json)
        return
    with connected() as client:
        found = naming.user(client, user)
    with in_session(from_stdin=password_stdin) as session:
        new = options.new_password(from_stdin=password_stdin, what=f"New password of {output.clean(found.username)}")
        changed = session.update_user(found.id, password=new)
    _done(changed, "has a new password", json=json)


@app.command(name="reset-password")
def reset_password(
    username: Annotated[str, typer.Argument(metavar="USERNAME", help="Whose.")],
    password_stdin: options.PasswordStdin = False,
    json: options.Json = False,
) -> None:
    """Set a forgotten password, on the machine that has the database.

    Nobody needs to be logged in: it works on this machine's settings, on the embedded database or on DATABASE_URL's,
    also while CodeHub runs. The user's sessions and tokens end.
    """
    from codehub import logs
    from codehub.config import Settings

    settings = Settings.load()
    logs.configure(settings.log)
    new = options.new_password(from_stdin=password_stdin, what=f"New password of {output.clean(username)}")
    user = asyncio.run(_reset(settings, username, new))
    if json:
        output.print_json({"id": user.id, "username": user.username, "role": user.role})
    else:
        output.say(f"{output.clean(user.username)} has a new password.")


async def _reset(settings: "Settings", username: str, password: str) -> "UserRow":
    from codehub.backup.database import reachable
    from codehub.db.pool import Role, open_pool
    from codehub.services import accounts

    async with reachable(settings, output.say) as url, open_pool(url, Role.API, max_size=1) as pool:
        return await accounts.reset_password(pool, username, password)


def _own_password(*, from_stdin: bool, json: bool) -> None:
    with proven(from_stdin=from_stdin) as (session, current):
        new = options.new_password(from_stdin=from_stdin, what="New password")
        me = session.session().user
        session.change_password(current, new)
    _done(me, "has a new password", json=json)


def _done(user: object, words: str, *, json: bool) -> None:
    from codehub.client import User

    assert isinstance(user, User)
    if json:
        output.print_json(user)
    else:
        output.say(f"{output.clean(user.username)} {words}.")
