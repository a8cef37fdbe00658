"""`codehub accept-losses`: an administrator's word that homes which are missing are lost, and not out of reach."""

from typing import Annotated

import typer

from codehub.cli import options
from codehub.cli.connecting import connected


def accept_losses(
    backend: Annotated[str, typer.Argument(metavar="BACKEND", help="Where the homes were: process, docker or k8s.")],
    *,
    yes: options.Yes = False,
) -> None:
    """Say that the homes which a backend lacks are lost.

    For administrators. Many homes that are missing at once are taken for an outage, and their workspaces are left alone
    until they are back. Where a disk is really gone, this makes their workspaces errors, which can be recovered from
    their archives or with a blank home (`codehub ws recover`), and stops what still runs of them. It is about those
    that are missing now; each is looked for once more, and no home is removed.
    """
    with connected() as client:
        options.confirm(f"Are the homes that {backend} lacks lost for good, and not merely out of reach?", yes=yes)
        client.accept_losses(backend)
    typer.echo("Accepted: their workspaces will say DataLost within a minute. → codehub ws list --all --phase ERROR")
