"""`codehub token`: one's own API tokens, for programs."""

from typing import Annotated

import typer

from codehub.cli import naming, options, output
from codehub.cli.connecting import connected
from codehub.cli.exits import CommandError, Exit

app = typer.Typer(help="Your API tokens.", no_args_is_help=True)

SCOPES = ("read", "write")


@app.command(name="list")
def list_command(json: options.Json = False) -> None:
    """Show your tokens; what they are is shown only when they are made."""
    with connected() as client:
        found = client.tokens()
    if json:
        output.print_json(found)
        return
    if not found:
        output.say("You have no tokens. Make one: codehub token create NAME")
        return
    rows = [
        [
            one.name,
            one.scope,
            output.ago(one.created_at),
            output.ago(one.last_used_at),
            output.ago(one.expires_at),
            identity,
        ]
        for one, identity in zip(found, naming.shown_ids([str(one.id) for one in found]), strict=True)
    ]
    output.print_table(["NAME", "SCOPE", "CREATED", "USED", "EXPIRES", "ID"], rows)


@app.command()
def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What it is for.")],
    scope: Annotated[str, typer.Option(help=f"What it may do: {', '.join(SCOPES)}.")] = "read",
    days: Annotated[
        int | None, typer.Option(min=1, max=3650, help="For how many days. [default: until it is revoked]")
    ] = None,
    json: options.Json = False,
) -> None:
    """Make a token, and print it: it is not shown again."""
    if scope not in SCOPES:
        raise CommandError(
            f"There is no scope {scope!r}.", f"Choose one of: {', '.join(SCOPES)}.", exit_code=Exit.USAGE
        )
    with connected() as client:
        made = client.create_token(name, scope=scope, expires_in_days=days)
    if json:
        output.print_json(made)
        return
    until = f" until {output.when(made.expires_at)}" if made.expires_at else " until it is revoked"
    output.say(f"Token {made.id} ({made.scope}){until}. Keep it safe: it is not shown again.")
    typer.echo(output.clean(made.token))


@app.command()
def revoke(
    token: Annotated[str, typer.Argument(metavar="TOKEN", help="Its name, its id or the beginning of its id.")],
    json: options.Json = False,
) -> None:
    """End a token at once."""
    with connected() as client:
        found = naming.token(client, token)
        client.revoke_token(found.id)
    if json:
        output.print_json(found)
    else:
        output.say(f"The token {output.clean(found.name)} is revoked.")
