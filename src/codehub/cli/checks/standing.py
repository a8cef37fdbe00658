"""How workspaces and archives stand, as the database and the CodeHub that runs know it."""

import asyncio
import re
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from codehub.cli.checks import codes
from codehub.cli.checks.finding import Finding, failed, failed_by, ok, warning
from codehub.db.diagnosis import Diagnosis, diagnose
from codehub.db.pool import Role, connection, open_pool
from codehub.embedded.postgres import url_at
from codehub.errors import CodeHubError

STUCK_SECONDS = 1800.0
_SECONDS = 15.0
_UNKNOWN = re.compile(r"^codehub_unknown_resources ([0-9.e+]+)$", re.MULTILINE)


async def of_database(url: str, *, is_running: bool) -> list[Finding]:
    """`is_running`: whether a CodeHub is known to run, so that somebody should lead."""
    try:
        async with asyncio.timeout(_SECONDS), open_pool(url, Role.API, max_size=1) as pool, connection(pool) as conn:
            found = await diagnose(conn, stuck_after_seconds=STUCK_SECONDS)
    except TimeoutError:
        return [failed(codes.DATABASE, "The database did not answer in time.", "See whether it is overloaded.")]
    except CodeHubError as error:
        return [failed_by(codes.DATABASE, error)]
    return findings(found, is_running=is_running)


async def of_data_dir(path: Path) -> list[Finding]:
    """The embedded database of the CodeHub that runs on it; only who may read its secrets can look."""
    try:
        return await of_database(url_at(path), is_running=True)
    except CodeHubError as error:
        return [failed_by(codes.DATABASE, error)]


def findings(found: Diagnosis, *, is_running: bool) -> list[Finding]:
    return [_leader(found, is_running=is_running), *_operations(found), *_archives(found)]


def _leader(found: Diagnosis, *, is_running: bool) -> Finding:
    if found.is_led:
        return ok(codes.LEADER.check, f"{found.holder} leads")
    told = f"No coordinator leads; the last was {found.holder}."
    advice = "Start `codehub up` or `codehub coordinator`; its log says why it does not lead."
    return (failed if is_running else warning)(codes.LEADER, told, advice)


def _operations(found: Diagnosis) -> list[Finding]:
    told = []
    if found.stuck:
        minutes = STUCK_SECONDS / 60
        told.append(
            warning(
                codes.STUCK,
                f"{found.stuck} operations began more than {minutes:.0f} minutes ago; the oldest: {found.oldest}.",
                "Look at `codehub ws show` of it: large homes take long, and outages are waited for.",
            )
        )
    if found.errors:
        told.append(
            warning(
                codes.ERRORS,
                f"{found.errors} workspaces are in ERROR.",
                "Each says why and what to do: codehub ws list --phase ERROR --all",
            )
        )
    return told or [ok(codes.STUCK.check, "none is stuck, no workspace is in ERROR")]


def _archives(found: Diagnosis) -> list[Finding]:
    told = []
    if found.gc.get("stopped"):
        told.append(warning(codes.GC_STOPPED, str(found.gc["stopped"]), "See: codehub gc --dry-run"))
    if missing := int(found.gc.get("missing_count", 0)):
        told.append(
            warning(
                codes.MISSING, f"{missing} workspaces' archives were not in the store.", "See: codehub gc --dry-run"
            )
        )
    return told


def orphans(url: str) -> list[Finding]:
    """As the leader has seen them; nothing when this process does not lead, or does not say."""
    try:
        with urlopen(f"{url.rstrip('/')}/metrics", timeout=_SECONDS) as answer:  # noqa: S310 - our own address
            match = _UNKNOWN.search(answer.read().decode())
    except (URLError, OSError, ValueError):
        return []
    if match is None:
        return []
    if count := int(float(match[1])):
        return [
            warning(
                codes.ORPHANS,
                f"{count} containers or volumes belong to no workspace.",
                "The coordinator's log names them; nothing removes them by itself.",
            )
        ]
    return [ok(codes.ORPHANS.check, "every container and volume belongs to a workspace")]
