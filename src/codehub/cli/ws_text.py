"""Workspaces for people: a table, a page about one, and what deleting it would lose."""

import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from codehub.cli.naming import shown_ids
from codehub.cli.output import ago, duration, size, when

if TYPE_CHECKING:
    from codehub.client import HistoryEntry, Usage, Workspace


def state_of(workspace: "Workspace") -> str:
    """The phase, and what is going on: `STANDBY, STARTING`, `ERROR: DataLost`."""
    if workspace.phase == "ERROR":
        return f"ERROR: {workspace.error.reason}" if workspace.error else "ERROR"
    if workspace.operation != "NONE":
        return f"{workspace.phase}, {workspace.operation}"
    if workspace.deleted_at is None and workspace.desired_state != workspace.phase:
        return f"{workspace.phase}, to be {workspace.desired_state}"
    return workspace.phase


def next_of(workspace: "Workspace", now: datetime | None = None) -> str:
    """What will happen by itself: `STANDBY in 9 min`."""
    if workspace.deleted_at is not None:
        until = workspace.undelete_until
        return f"for {ago(until, now).removeprefix('in ')}" if until else "no"
    coming = workspace.next_transition
    if coming is None:
        return ""
    return f"{coming.to} {'soon' if coming.at <= (now or datetime.now(UTC)) else ago(coming.at, now)}"


def table(workspaces: Sequence["Workspace"], *, owners: bool, deleted: bool) -> tuple[list[str], list[list[str]]]:
    shown = shown_ids([str(one.id) for one in workspaces])
    head = ["NAME", "STATE", "IMAGE", "ID", "DELETED" if deleted else "USED", "UNDELETE" if deleted else "NEXT"]
    rows = []
    for one, identity in zip(workspaces, shown, strict=True):
        since = one.deleted_at if deleted else one.last_access_at
        coming = next_of(one)
        rows.append([one.name, state_of(one), one.image_ref, identity, ago(since), coming])
    if owners:
        head.insert(1, "OWNER")
        for row, one in zip(rows, workspaces, strict=True):
            row.insert(1, one.owner.username)
    return head, rows


def facts(workspace: "Workspace", server: str) -> list[tuple[str, str]]:
    one = workspace
    found = [
        ("Name", one.name),
        ("Id", str(one.id)),
        ("Owner", one.owner.username),
        ("State", f"{state_of(one)} since {when(one.phase_changed_at)}" if one.phase_changed_at else state_of(one)),
        ("Wanted", one.desired_state),
    ]
    if one.operation != "NONE":
        done = f", {size(one.progress.bytes)} so far" if one.progress else ""
        found.append(("Doing", f"{one.operation} for {ago(one.op_started_at).removesuffix(' ago')}{done}"))
    if one.error is not None:
        found += _error(one)
    if one.next_transition is not None:
        because = f"\n{one.next_transition.because}" if one.next_transition.because else ""
        found.append(("Next", f"{one.next_transition.to} at {when(one.next_transition.at)}{because}"))
    if one.keep_awake_until is not None and one.keep_awake_until > datetime.now(UTC):
        found.append(("Kept awake", f"until {when(one.keep_awake_until)}"))
    if one.safe_mode and one.desired_state == "RUNNING":
        found.append(("Safe mode", "no settings are read from its home, until it is started again"))
    if one.deleted_at is not None:
        until = f"can be undeleted until {when(one.undelete_until)}" if one.undelete_until else "cannot be undeleted"
        found += [("Deleted", when(one.deleted_at)), ("Trash", until)]
    found += [
        ("Image", f"{one.image_ref} on {one.backend}"),
        ("URL", f"{server}{one.url}"),
        ("Archived", "an archive of its home is kept" if one.archived else "no archive yet"),
        ("Stops", _after(one.standby_ttl_seconds, "without use")),
        ("Archives", _after(one.archive_ttl_seconds, "stopped")),
        ("Used", when(one.last_access_at)),
        ("Created", when(one.created_at)),
    ]
    found += [("About", one.description)] if one.description else []
    found += [("Memo", one.memo)] if one.memo else []
    return found


def places(one: "Workspace") -> list[tuple[str, str]]:
    """What an operator looks for in the engine and in the store."""
    return [
        ("Instance", f"ws-{one.id} ({one.backend})"),
        ("Volume", f"{one.home_store_key or '-'} ({one.storage_backend or '-'})"),
        ("Archive key", one.archive_key or "-"),
        ("Operation id", str(one.op_id) if one.op_id else "-"),
        ("Observed", when(one.observed_at)),
    ]


def usage_facts(usage: "Usage", server: str) -> list[tuple[str, str]]:
    now, limits = usage.now, usage.limits
    assert now is not None
    cpus = "not known" if now.cpus is None else f"{now.cpus:.2f}"
    memory = "not known" if now.memory_bytes is None else size(now.memory_bytes)
    found = [
        ("CPUs", cpus + (f" of {limits.cpus:g}" if limits.cpus else "")),
        ("Memory", memory + (f" of {size(limits.memory_bytes)}" if limits.memory_bytes else "")),
    ]
    peak = max((each.memory_bytes for each in usage.day if each.memory_bytes is not None), default=None)
    found += [("Most memory", f"{size(peak)} in the last 24 h")] if peak is not None else []
    if usage.ports is not None:
        found.append(("Ports", "\n".join(f"{each.port}  {server}{each.url}" for each in usage.ports) or "none"))
    return found


def size_facts(usage: "Usage") -> list[tuple[str, str]]:
    """What is known of its home's size and its archive's."""
    found = []
    if usage.home is not None:
        known = "not known" if usage.home.bytes is None else size(usage.home.bytes)
        found.append(("Home size", f"{known}, measured {ago(usage.home.at)}"))
    if usage.archive_bytes is not None:
        found.append(("Archive size", size(usage.archive_bytes)))
    return found


def _error(one: "Workspace") -> list[tuple[str, str]]:
    error = one.error
    assert error is not None
    lines = [error.reason + (f", {error.count} failed attempts" if error.count > 1 else "")]
    lines += [error.message] if error.message else []
    if error.retry_at is not None and one.phase != "ERROR":
        lines.append(f"Next attempt: {when(error.retry_at)}")
    found = [("Error", "\n".join(lines))]
    if one.phase == "ERROR":
        sources = f" --from {'|'.join(error.can_recover_from)}" if error.can_recover_from else ""
        found.append(("Recover", f"codehub ws recover {one.id}{sources}"))
    return found


def _after(seconds: int, words: str) -> str:
    return f"after {duration(seconds)} {words}" if seconds else "never by itself"


def loss_of(workspace: "Workspace") -> str:
    """What deleting it loses, said before it is done."""
    name = workspace.name
    if workspace.phase == "PENDING":
        return f"{name} was never started: there is nothing in it to lose."
    if workspace.phase == "ERROR":
        if workspace.archived:
            return f"{name} is in ERROR: what was written since its last archive will be LOST; that stays a while."
        return f"{name} is in ERROR and was never archived: its home will be LOST, for good."
    if workspace.phase in ("RUNNING", "STANDBY"):
        return f"{name} will be stopped and its home archived; it can be undeleted for a while, then it is lost."
    return f"{name} goes to the trash; it can be undeleted for a while, then it is lost."


def loss_by_purge(workspace: "Workspace") -> str:
    return (
        f"Purging {workspace.name} removes its home and every archive of it, now and for good. It CANNOT be undeleted."
    )


def history_rows(entries: Sequence["HistoryEntry"]) -> tuple[list[str], list[list[str]]]:
    rows = []
    for entry in entries:
        state = entry.phase if entry.operation == "NONE" else f"{entry.phase}, {entry.operation}"
        took = "" if entry.duration_ms is None else f"{entry.duration_ms / 1000:.1f} s"
        why = f"{entry.error_reason}: {entry.reason}" if entry.error_reason else entry.reason
        at = ago(entry.at) if sys.stdout.isatty() else f"{entry.at.astimezone():%Y-%m-%d %H:%M:%S}"
        rows.append([at, state, why, entry.cause, took])
    return ["WHEN", "STATE", "WHAT", "ASKED BY", "TOOK"], rows
