"""How workspaces and archives stand, as the database knows it: what is not well, and what to do about it."""

from datetime import datetime

from codehub.db.adoption import WAY_ON
from codehub.db.diagnosis import Diagnosis, diagnose
from codehub.db.pool import Pool, connection
from codehub.errors import CodeHubError
from codehub.model.sentences import number_of
from codehub.services.doctor import codes
from codehub.services.doctor.finding import Finding, failed, failed_by, ok, warning

STUCK_SECONDS = 1800.0
MOST_SKEW_SECONDS = 5.0


async def look(pool: Pool, now: datetime) -> list[Finding]:
    """As a process sees it that serves people: somebody should lead, and the database's clock be ours (`now`)."""
    try:
        async with connection(pool) as conn:
            found = await diagnose(conn, stuck_after_seconds=STUCK_SECONDS)
    except CodeHubError as error:
        return [failed_by(codes.DATABASE, error)]
    return [*findings(found, is_running=True), skew(found.now, now, "the database")]


def findings(found: Diagnosis, *, is_running: bool) -> list[Finding]:
    return [
        _leader(found, is_running=is_running),
        *_lost_commits(found),
        *_store_owner(found),
        *([failed(codes.ADOPTION, found.adoption.told, WAY_ON)] if found.adoption is not None else []),
        *_operations(found),
        *_archives(found),
        *_orphans(found),
    ]


def _leader(found: Diagnosis, *, is_running: bool) -> Finding:
    if found.is_led:
        return ok(codes.LEADER.check, f"{found.holder} leads")
    told = f"No coordinator leads; the last was {found.holder}."
    advice = "Start `codehub up` or `codehub coordinator`; its log says why it does not lead."
    return (failed if is_running else warning)(codes.LEADER, told, advice)


def _lost_commits(found: Diagnosis) -> list[Finding]:
    if found.lost_commits_at is None:
        return []
    return [
        failed(
            codes.LOST_COMMITS,
            f"The database lost {found.lost_commits} commits or more; found at {found.lost_commits_at:%F %T} UTC.",
            "Stop every CodeHub, then: codehub backup FILE && codehub restore FILE --force",
        )
    ]


def _store_owner(found: Diagnosis) -> list[Finding]:
    if found.store_trouble is None:
        return []
    return [
        failed(
            codes.STORE_OWNER,
            found.store_trouble,
            "Stop the other installation or give it a store of its own; then here: codehub take-over",
        )
    ]


def _operations(found: Diagnosis) -> list[Finding]:
    told = []
    if found.stuck:
        minutes = STUCK_SECONDS / 60
        told.append(
            warning(
                codes.STUCK,
                f"{number_of(found.stuck, 'operation')} began more than {minutes:.0f} minutes ago; "
                f"the oldest: {found.oldest}.",
                "Look at `codehub ws show` of it: large homes take long, and outages are waited for.",
            )
        )
    if found.errors:
        told.append(
            warning(
                codes.ERRORS,
                f"{number_of(found.errors, 'workspace is', 'workspaces are')} in ERROR.",
                "Each says why and what to do: codehub ws list --phase ERROR --all",
            )
        )
    return told or [ok(codes.STUCK.check, "none is stuck, no workspace is in ERROR")]


def _archives(found: Diagnosis) -> list[Finding]:
    told = []
    if found.store_waits:
        told.append(
            failed(
                codes.STORE_OUT,
                f"{number_of(found.store_waits, 'workspace waits', 'workspaces wait')} to be archived or restored: "
                f"{found.store_outage or 'an outage'}",
                "Make room in the archive store, or mend it; they go on by themselves within minutes.",
            )
        )
    if found.gc.get("stopped"):
        told.append(warning(codes.GC_STOPPED, str(found.gc["stopped"]), "See: codehub gc --dry-run"))
    if missing := int(found.gc.get("missing_count", 0)):
        told.append(
            warning(
                codes.MISSING,
                f"{number_of(missing, 'archive was', 'archives were')} not in the store.",
                "See: codehub gc --dry-run",
            )
        )
    if unremembered := int(found.gc.get("unremembered_count", 0)):
        told.append(
            warning(
                codes.UNREMEMBERED,
                f"{number_of(unremembered, 'archive was', 'archives were')} made in a future that the database lost, "
                "and kept.",
                "Give each back or discard it: codehub gc --dry-run names them.",
            )
        )
    return told


def _orphans(found: Diagnosis) -> list[Finding]:
    """As the leader has seen them; nothing where none leads, or it has not said (yet, or being older)."""
    if not found.is_led or found.unknown is None:
        return []
    if found.unknown:
        return [
            warning(
                codes.ORPHANS,
                f"{number_of(found.unknown, 'container or volume belongs', 'containers or volumes belong')} to no "
                "workspace.",
                "Nothing removes them by itself. See them: codehub gc --orphans --dry-run",
            )
        ]
    return [ok(codes.ORPHANS.check, "every container and volume belongs to a workspace")]


def skew(theirs: datetime, ours: datetime, whose: str) -> Finding:
    seconds = (ours - theirs).total_seconds()
    if abs(seconds) <= MOST_SKEW_SECONDS:
        return ok(codes.CLOCK.check, f"agrees with {whose}")
    words = "ahead of" if seconds > 0 else "behind"
    return warning(
        codes.CLOCK, f"This machine's clock is {abs(seconds):.0f} s {words} that of {whose}.", "Let both follow NTP."
    )
