"""`codehub user`: accounts, for administrators; and one's own password."""

from typing import Annotated

import typer

from codehub.cli import naming, options, output
from codehub.cli.connecting import USER_AGENT, connected
from codehub.cli.exits import CommandError, Exit

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
    """Add a user; asks for their password."""
    with connected() as client:
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
def enable(user: Username, json: options.Json = False) -> None:
    """Let a disabled user in again."""
    _change(user, {"disabled": False}, "is enabled", json=json)


@app.command()
def role(
    user: Username,
    role: Annotated[str, typer.Argument(metavar="ROLE", help=f"One of: {', '.join(ROLES)}.")],
    json: options.Json = False,
) -> None:
    """Make a user an administrator, or no longer."""
    if role not in ROLES:
        raise CommandError(f"There is no role {role!r}.", f"Choose one of: {', '.join(ROLES)}.", exit_code=Exit.USAGE)
    _change(user, {"role": role}, f"is {'an administrator' if role == 'admin' else 'an ordinary user'} now", json=json)


@app.command()
def password(
    user: Annotated[str | None, typer.Argument(metavar="USER", help="Whose. [default: your own]")] = None,
    password_stdin: options.PasswordStdin = False,
    json: options.Json = False,
) -> None:
    """Set a user's password, or change your own.

    For your own it asks for the present one first; with --password-stdin that is the first line and the new one the
    second.
    """
    if user is None:
        _own_password(from_stdin=password_stdin, json=json)
        return
    with connected() as client:
        found = naming.user(client, user)
        new = options.new_password(from_stdin=password_stdin, what=f"New password of {output.clean(found.username)}")
        changed = client.update_user(found.id, password=new)
    _done(changed, "has a new password", json=json)


def _own_password(*, from_stdin: bool, json: bool) -> None:
    """With --password-stdin: the present one on the first line, the new one on the second."""
    from codehub.client import Client

    with connected() as client:
        me, url = client.session().user, client.url
    current = options.known_password(f"Present password of {output.clean(me.username)}", from_stdin=from_stdin)
    new = options.new_password(from_stdin=from_stdin, what="New password")
    with Client(url, user_agent=USER_AGENT) as session:
        session.login(me.username, current)
        try:
            session.change_password(current, new)
        finally:
            session.logout()
    _done(me, "has a new password", json=json)


def _change(user: str, changes: dict[str, object], words: str, *, json: bool) -> None:
    with connected() as client:
        changed = client.update_user(naming.user(client, user).id, **changes)
    _done(changed, words, json=json)


def _done(user: object, words: str, *, json: bool) -> None:
    from codehub.client import User

    assert isinstance(user, User)
    if json:
        output.print_json(user)
    else:
        output.say(f"{output.clean(user.username)} {words}.")
