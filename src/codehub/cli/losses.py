"""`codehub accept-losses`: an administrator's word that what is missing is lost, and not merely out of reach."""

from typing import Annotated

import typer

from codehub.cli import options
from codehub.cli.connecting import connected
from codehub.model.suspicion import ARCHIVES


def accept_losses(
    backend: Annotated[
        str,
        typer.Argument(
            metavar="BACKEND", help="Where the homes were: process, docker or k8s; archives for the archive store."
        ),
    ],
    *,
    yes: options.Yes = False,
) -> None:
    """Say that the homes which a backend lacks, or the archives which the store lacks, are lost.

    For administrators. Many homes that are missing at once are taken for an outage, and their workspaces are left alone
    until they are back. Where a disk is really gone, this makes their workspaces errors, which can be recovered from
    their archives or with a blank home (`codehub ws recover`), and stops what still runs of them. It is about those
    that are missing now; each is looked for once more, and no home is removed.

    With `archives` the same is said of archives that are missing from the store: their workspaces become errors
    (ArchiveAccessError), which can be recovered with a blank home, or once their archive is back.
    """
    what = "archives that the store" if backend == ARCHIVES else f"homes that {backend}"
    with connected() as client:
        options.confirm(f"Are the {what} lacks lost for good, and not merely out of reach?", yes=yes)
        client.accept_losses(backend)
    told = "ArchiveAccessError" if backend == ARCHIVES else "DataLost"
    typer.echo(f"Accepted: their workspaces will say {told} within a minute. → codehub ws list --all --phase ERROR")
