"""`codehub gc`: collect archives that nobody needs any more, or see what a collection would remove."""

from typing import Annotated

import typer

from codehub.cli import options, output
from codehub.cli.connecting import connected


def gc(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be removed.")] = False,
    json: options.Json = False,
) -> None:
    """Collect archives that nobody needs any more; for administrators."""
    with connected() as client:
        report = client.run_gc(dry_run=dry_run)
    if json:
        output.print_json(report)
        return
    output.print_facts([(name, str(value)) for name, value in (report.model_extra or {}).items()])
