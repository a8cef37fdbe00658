"""`codehub login`, `logout`, `whoami`: a token of this machine's own for a server, made through the API.

The password is used for one request and kept nowhere; the session that made the token is ended at once.
"""

import os
import socket
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

import typer

from codehub.cli import credentials, options, output
from codehub.cli.connecting import USER_AGENT, connected, current_url, valid_url
from codehub.cli.credentials import Login
from codehub.cli.exits import CommandError, Exit

if TYPE_CHECKING:
    from codehub.client import Session

DAYS = 365
_LOCAL = ("localhost", "127.0.0.1", "::1")


def login(
    url: Annotated[
        str | None, typer.Argument(metavar="URL", help="The server, as https://host or http://127.0.0.1:8080.")
    ] = None,
    *,
    username: Annotated[str | None, typer.Option("--username", "-u", help="Who you are; else you are asked.")] = None,
    password_stdin: options.PasswordStdin = False,
    token: Annotated[
        str | None,
        typer.Option(metavar="-", help="Use a token instead of a password: asked for, or read from standard input."),
    ] = None,
    days: Annotated[int, typer.Option(min=1, max=3650, help="For how many days.")] = DAYS,
    read_only: Annotated[bool, typer.Option("--read-only", help="Only look, change nothing.")] = False,
    json: options.Json = False,
) -> None:
    """Log in to a server from this machine.

    Commands speak to it from then on. A token is made for this machine; the password is kept nowhere.
    """
    server = valid_url(url) if url else current_url()
    if server is None:
        raise CommandError(
            "Which server? Give its URL.", "For example: codehub login http://127.0.0.1:8080", exit_code=Exit.USAGE
        )
    if server.startswith("http://") and urlsplit(server).hostname not in _LOCAL:
        output.say(f"WARNING: {server} is not encrypted: others on the way can read what you send.")
    credentials.load()  # before anything is asked for: can it be kept at all?
    if token is not None:
        made = _by_token(server, _secret(token))
    else:
        scope = "read" if read_only else "write"
        made = _by_password(server, username, from_stdin=password_stdin, days=days, scope=scope)
    try:
        stored, _ = credentials.change(lambda stored: stored.having(server, made))
    except BaseException:
        _revoke(server, made)  # nobody will know it
        raise
    before = stored.servers.get(server)
    if before is not None and before.token != made.token:
        _revoke(server, before)
    if json:
        output.print_json({"url": server, "username": made.username, "token_id": made.token_id})
    else:
        output.say(f"You are logged in to {server} as {output.clean(made.username)}.")
    if os.environ.get("CODEHUB_TOKEN") or os.environ.get("CODEHUB_URL"):
        output.say("Note: CODEHUB_URL or CODEHUB_TOKEN is set, and goes before this login.")


def _revoke(server: str, login: Login) -> None:
    """A token that `codehub login` made; it has ended already, or ends by itself, where that fails."""
    from codehub.client import ApiError, Client

    if login.token_id is not None:
        with suppress(ApiError, ValueError), Client(server, login.token, user_agent=USER_AGENT) as client:
            client.revoke_token(login.token_id)


def _secret(given: str) -> str:
    if given != "-":
        raise CommandError(
            "A token on the command line can be seen by others on this machine, and stays in the shell's history.",
            "Give `--token -`, and the token when asked or on standard input.",
            exit_code=Exit.USAGE,
        )
    if not sys.stdin.isatty():
        return options.read_line("token")
    token: str = typer.prompt("Token", hide_input=True, err=True)
    return token


def _by_token(server: str, token: str) -> Login:
    from codehub.client import Client

    try:
        client = Client(server, token, user_agent=USER_AGENT)
    except ValueError as error:
        raise CommandError(str(error), exit_code=Exit.USAGE) from None
    with client:
        return Login(token.strip(), client.session().user.username)


def _by_password(server: str, username: str | None, *, from_stdin: bool, days: int, scope: str) -> Login:
    from codehub.client import Client

    with Client(server, user_agent=USER_AGENT) as client:
        client.readiness()  # before a password is asked for: is it CodeHub at all?
        if username is None:
            if from_stdin:
                raise CommandError("Who are you? Give --username.", exit_code=Exit.USAGE)
            options.need_terminal("--username and --password-stdin")
            username = typer.prompt("Username", err=True)
        password = options.known_password(f"Password of {username}", from_stdin=from_stdin)
        user = client.login(username, password)
        try:
            name = f"codehub on {socket.gethostname() or 'a machine'}"
            made = client.create_token(name, scope=scope, expires_in_days=days)
        finally:
            client.logout()
    return Login(made.token, user.username, str(made.id))


def logout(
    url: Annotated[str | None, typer.Argument(metavar="URL", help="The server. [default: the current one]")] = None,
    json: options.Json = False,
) -> None:
    """Log out of a server: this machine's token ends."""
    from codehub.client import ApiError, Client

    stored = credentials.load()
    server = valid_url(url) if url else stored.current
    login = stored.servers.get(server) if server else None
    if server is None or login is None:
        where = f" to {server}" if server else ""
        raise CommandError(f"You are not logged in{where}.", exit_code=Exit.NOT_ALLOWED)
    revoked, why = False, "it was given with --token"
    if login.token_id is not None:
        try:
            with Client(server, login.token, user_agent=USER_AGENT) as client:
                client.revoke_token(login.token_id)
            revoked = True
        except ApiError as error:
            revoked, why = error.status in (401, 404), str(error)
    _, left = credentials.change(lambda stored: stored.without(server, login.token))
    if json:
        output.print_json({"url": server, "revoked": revoked, "current": left.current})
        return
    output.say(f"You are logged out of {server}.")
    if not revoked:
        output.say(f"WARNING: the token is forgotten here but was not revoked: {why}")
    if left.current is not None:
        output.say(f"Commands speak to {left.current} now.")


def whoami(json: options.Json = False) -> None:
    """Show which server commands speak to, and as whom."""
    with connected() as client:
        session = client.session()
        if json:
            output.print_json({"url": client.url, **session.model_dump(mode="json")})
            return
        output.print_facts(_facts(session, client.url))
    others = [url for url in credentials.load().servers if url != client.url]
    if others:
        output.say(f"Other logins: {', '.join(others)}")


def _facts(session: "Session", url: str) -> list[tuple[str, str]]:
    return [
        ("Server", url),
        ("User", f"{session.user.username} ({session.user.role})"),
        ("May", "read only" if session.scope == "read" else "read and write"),
        ("Until", output.when(session.expires_at) if session.expires_at else "revoked"),
    ]
