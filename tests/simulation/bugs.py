"""The bugs that the simulation must find: every row of the traps that a model checker found, and the classics.

Each is what an honest mistake would look like: one rule left out, or two where another one would still cover for it.
"""

# ruff: noqa: E501 - a replaced line reads best in one line

from tests.simulation.planting import Bug, Edit

TRAPS = {
    1: Bug(
        "an ERROR on the way down counts as arrived, and the deletion takes the home unarchived",
        (
            Edit("model.wishes", "(Phase.ARCHIVED, Phase.PENDING)", "(Phase.ARCHIVED, Phase.PENDING, Phase.ERROR)"),
            Edit("model.wishes", "arrived = arrived and not left_over", "pass"),
        ),
        verbs=("jobs.archive", "instances.remove"), kinds=("FLAKY", "HALF"),
    ),
    2: Bug(
        "a home that is being deleted is not condemned, and undelete does not wait until it is gone",
        (
            Edit("model.completion", "return replace(home, volume=VolumeState.CONDEMNED, removal_asked=True)\n", "return home\n"),
            Edit("model.completion", "home = replace(home, volume=VolumeState.NONE, uid=None, restore_marker=None)", "pass"),
            Edit("model.steps", "    if is_leftover(home, seen.volume):\n", "    if home.knows(seen.volume.incarnation):\n"),
            Edit("model.wishes", "if not (gone or stays) or status.conditions.container_ready.reason != c.CONTAINER_NOT_FOUND:", "if False:"),
        ),
    ),
    3: Bug(
        "an archive of an earlier operation completes this one",
        (
            Edit("model.completion", "status.home_ctx.volume is VolumeState.CONDEMNED and status", "status"),
            Edit("model.suspicion", "        return True  # it may have written", "        return None  # it may have written"),
            Edit("model.suspicion", "ArchiveSeen.CORRUPTED, ArchiveSeen.EXPIRED):\n        return True", "ArchiveSeen.CORRUPTED, ArchiveSeen.EXPIRED):\n        return False"),
        ),
        losses=0.1,
    ),
    4: Bug(
        "DataLost is judged from the change alone",
        (Edit("model.suspicion", "if home.volume is not VolumeState.LIVE:", "if home.volume is not VolumeState.LIVE or workspace.status.phase == 'ERROR':"),),
        losses=0.3, verbs=("instances.start",), kinds=("IMAGE_MISSING",),
    ),
    5: Bug(
        "mounting makes a volume, and nobody notices that it is another",
        (
            Edit("model.suspicion", "volume.incarnation == home.incarnation and home.uid in (None, volume.uid)", "volume.incarnation == home.incarnation"),
            Edit("drivers.memory.world", "        if volume is None:\n            raise Refused(f\"There is no volume of {workspace_id}.\")", "        if volume is None:\n            volume = self.volumes[workspace_id] = Volume(ref.incarnation, ref.uid or '')"),
        ),
        losses=0.3,
    ),
    6: Bug(
        "the result of a restore completes another one",
        (
            Edit("model.steps", "    if _restored_elsewhere(home, job, seen.volume):", "    if False:"),
            Edit("model.completion", "restored and same and", "restored and"),
        ),
        losses=0.3, verbs=("jobs.remove",), kinds=("FLAKY", "ACCEPTED", "ACCEPTED", "ACCEPTED"),
    ),
    7: Bug(
        "jobs of earlier operations are left alone",
        (
            Edit("model.tick", "    if seen.jobs and (not waits or is_put_off(status)):", "    if False:"),
            Edit("model.tick", "    if seen.jobs:\n        return Decision(status, None, \"it waits", "    if False:\n        return Decision(status, None, \"it waits"),
            Edit("model.tick", "workspace.status.operation is Operation.NONE or seen.jobs == ()", "True"),
            Edit("model.tick", "status.operation is not Operation.NONE and seen.jobs:", "False:"),
            Edit("model.steps", "    if other is not None:", "    if False:"),
            Edit("model.completion", "if seen.jobs is None or seen.jobs:", "if seen.jobs is None:"),
        ),
    ),
    8: Bug(
        "a restore goes into the volume that is there",
        (
            Edit("model.completion", "home = home.draw(op_id, VolumeState.RESTORING)", "home = replace(home, volume=VolumeState.RESTORING, restore_marker=None)"),
            Edit("model.observation", "VolumeRef(self.incarnation, self.uid or None)", "VolumeRef(self.incarnation, None)"),
        ),
        verbs=("volumes.delete",), kinds=("ACCEPTED",),
    ),
    9: Bug(
        "an instance that is dead counts as none",
        (
            Edit("model.plan", "(phase is Phase.RUNNING or _exists(seen.instance))", "phase is Phase.RUNNING"),
            Edit("model.completion", "return seen.instance is not None and not seen.instance.exists", "return seen.instance is not None and seen.instance.endpoint is None"),
            Edit("model.steps", "    if seen.instance.exists:\n        # It may", "    if seen.instance.endpoint:\n        # It may"),
            Edit("model.steps", "if seen.instance is not None and seen.instance.exists:", "if seen.instance is not None and seen.instance.endpoint:"),
        ),
    ),
    10: Bug(
        "PROVISIONING does not end live",
        (Edit("model.completion", "home = replace(home, volume=VolumeState.LIVE, uid=uid, retired=retired)", "home = replace(home, volume=home.volume, uid=uid, retired=retired)"),),
    ),
    11: Bug(
        "an instance whose home is lost stays",
        (Edit("model.tick", "    homeless = not status.conditions.volume_ready.status\n", "    return None\n    homeless = False\n"),),
        losses=0.1,
    ),
    12: Bug(
        "a TTL acts whatever is wished for",
        (Edit("model.ttl", " and status.phase.value == wish.desired_state.value", ""),),
    ),
    13: Bug(
        "nobody looks for an instance before the archive is committed",
        (Edit("model.steps", "    if seen.instance.exists:\n        # It may", "    if False:\n        # It may"),),
        verbs=("instances.start",), kinds=("LANDS_LATE", "ACCEPTED"),
    ),
    14: Bug(
        "a deletion takes whatever volume is there",
        (Edit("drivers.memory.volumes", "there = self._world.volume(workspace_id, volume)", "there = self._world.volumes[workspace_id]"),),
        verbs=("volumes.delete",), kinds=("LANDS_LATE", "ACCEPTED"),
    ),
    15: Bug(
        "an archive that failed verification is made again under the same op_id",
        (Edit("model.steps", "return Change(_begun_again(failed, now, fresh_op_id), \"the archive failed", "return Change(failed, \"the archive failed"),),
        verbs=("jobs.archive",), kinds=("DAMAGES",),
    ),
}  # fmt: skip

OTHERS = {
    "op_id reused": Bug(
        "an op_id serves two operations",
        (Edit("model.completion", "        op_id=op_id,\n        op_started_at=now,", "        op_id=status.op_id or op_id,\n        op_started_at=now,"),),
    ),
    "deleted before the commit": Bug(
        "the volume goes before its archive is committed",
        (Edit("model.steps", "        archive_key=archive_key(workspace.id, op_id),\n", ""),),
    ),
    "restore_marker kept": Bug(
        "a restore begins with the marker of the last one",
        (
            Edit("model.workspace", "            incarnation=Incarnation(str(op_id)),\n", "            incarnation=Incarnation(str(op_id)),\n            restore_marker=self.restore_marker,\n"),
            Edit("model.steps", "    return home.restore_marker is not None and (not volume.exists or home.uid != volume.uid)", "    return False"),
            Edit("model.completion", "restored and same and", "restored and"),
            Edit("model.completion", "home = replace(home, volume=VolumeState.NONE, uid=None, restore_marker=None)", "home = replace(home, volume=VolumeState.NONE, uid=None)"),
        ),
        losses=0.3, verbs=("jobs.remove",), kinds=("FLAKY", "ACCEPTED", "ACCEPTED", "ACCEPTED"),
    ),
    "an outage is absence": Bug(
        "what could not be looked at is not there",
        (
            Edit("coordinator.looking", "            self._outage(name, str(error))\n            return None", "            self._outage(name, str(error))\n            return Listing({}, {}, {}, busy)"),
            Edit("coordinator.looking", "_NO_VOLUME = VolumeSeen(exists=False)", "_NO_VOLUME = VolumeSeen(exists=False, confirmed=True)"),
        ),
    ),
    "ERROR forgotten": Bug(
        "an ERROR is reset at the next tick",
        (
            Edit(
                "model.tick",
                "    looked = _with(workspace, honour(workspace, seen))\n",
                "    looked = _with(workspace, honour(workspace, seen))\n"
                "    if looked.status.phase is Phase.ERROR:\n"
                "        looked = _with(looked, replace(looked.status, error_reason=None, error_count=0))\n",
            ),
        ),
    ),
}  # fmt: skip

DISASTERS = {
    "a full store is a failure": Bug(
        "what an outage keeps from being done counts as a failed attempt",
        (
            Edit("model.failure", "    if fault.reason is ErrorReason.UNREACHABLE:\n        since", "    if False:\n        since"),
            Edit("model.failure", "reason is None or reason is ErrorReason.UNREACHABLE:", "reason is None:"),
        ),
        disasters=("STORE_FULL",), is_fair=True,
    ),
    "a slow job times out": Bug(
        "a limit is on time, not on progress",
        (Edit("coordinator.seeing", "self.deadlines.progressed(workspace.id, op_id, now)", "pass"),),
        disasters=("SLOW_STORE",), is_fair=True, weather_every=3600.0,
    ),
    "an unreadable file locks its owner out": Bug(
        "a home that cannot be archived is in ERROR",
        (Edit("model.tick", "if fault is not None and lasting is None and can_be_left(looked, seen):", "if False:"),),
        disasters=("UNREADABLE_FILE",), is_fair=True,
    ),
    "an evicted instance has crashed": Bug(
        "what a machine in distress ends counts as a crash",
        (Edit("model.tick", "blameless = seen.instance is not None and seen.instance.blameless", "blameless = False"),),
        disasters=("EVICTIONS",), is_fair=True,
    ),
    "a jump times out": Bug(
        "limits run on through a jump of the clock",
        (Edit("coordinator.controller", "self._deadlines.restart(now)", "pass"),),
        disasters=("CLOCKS_JUMP", "SLOW_STORE"), is_fair=True,
    ),
    "a listing ends a restore": Bug(
        "a restore whose volume a listing lacks begins again",
        (Edit("model.steps", "    if is_absence_unsure(workspace, seen):\n", "    if False:\n"),),
        disasters=("SLOW_STORE",), is_fair=True,
    ),
    "a purge stops GC": Bug(
        "archives of deleted workspaces count as implausible orphans",
        (Edit("model.gc", "    if row.deleted_at is not None:\n        return True\n    present", "    present"),),
        disasters=("PURGE_STORM", "TRASH_EXPIRES"), is_fair=True,
    ),
    "a lost future is collected": Bug(
        "GC deletes archives that the database does not remember",
        (Edit("model.gc", "if not (key in memory.keys or archive.modified_at < memory.since or key in candidates.unknown):", "if False:"),),
        disasters=("COMMITS_LOST", "SNAPSHOT_PUT_BACK", "TRASH_EXPIRES"),
    ),
    "an older archive is adopted": Bug(
        "a restore adopts the oldest of the newer archives",
        (Edit("backup.standing", "key=lambda archive: archive.modified_at, reverse=True)", "key=lambda archive: archive.modified_at)"),),
        disasters=("BACKUP_RESTORED",), is_fair=True,
    ),
    "an old restore runs over a newer home": Bug(
        "a restore that the database forgot has ended is made again, over what was written since",
        (Edit("model.steps", "if job is None and seen.volume.whole:", "if False:"),),
        disasters=("COMMITS_LOST",), weather_every=3600.0,
    ),
    "half a home is made live": Bug(
        "a volume of our making that nothing proves whole is recovered from",
        (Edit("model.observe", "return volume.exists and not volume.whole and volume.incarnation != UNLABELLED", "return False"),),
        disasters=("COMMITS_LOST", "SNAPSHOT_PUT_BACK"),
    ),
    "nobody takes a deletion back": Bug(
        "a workspace with a volume that is newer than its row stays in DELETING",
        (Edit("model.wishes", "    stays = _has_unknown_volume(workspace)", "    stays = False"),),
        disasters=("BACKUP_RESTORED", "SNAPSHOT_PUT_BACK", "TRASH_EXPIRES"),
    ),
}  # fmt: skip

ALL = {**{f"trap {number}": bug for number, bug in TRAPS.items()}, **OTHERS, **DISASTERS}
