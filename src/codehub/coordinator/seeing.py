"""From listings and the results of errands to what was seen of one workspace.

Losses are not believed lightly: a volume that a listing lacks is looked at directly, and when many are missing at once
the backend is taken to be out, whatever a direct look says, until an administrator says that they are lost: those that
were missing before that was said, and no others. Nothing here asks a driver or decides anything.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

import structlog

from codehub.coordinator.deadlines import Deadlines
from codehub.coordinator.errands import Failed, Looked, Result
from codehub.coordinator.looking import Listing
from codehub.coordinator.store import StoreWatch
from codehub.db.adoption import AdoptionDue
from codehub.db.losses import Word
from codehub.model.names import archive_key
from codehub.model.needs import NOTHING, Need, archive_need
from codehub.model.observation import ArchiveSeen, JobSeen, Seen, VolumeSeen
from codehub.model.suspicion import is_absence_unsure, is_volume_suspect, looks_like_outage
from codehub.model.workspace import InstanceBackend, OpId, Phase, VolumeState, Workspace, WorkspaceId

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Sight:
    """What one tick has seen of one workspace, and what it lacks."""

    seen: Seen
    need: Need  # looks at the store that are still to be made
    volume_suspect: bool = False  # its volume is to be looked at directly
    # What one errand must look at so that the next decision has all of it, also what this sight has already.
    whole_need: Need = NOTHING
    whole_suspect: bool = False


NOTHING_SEEN = Sight(Seen(), NOTHING)


@dataclass
class Eyes:
    """One tick's observation of everything, with what earlier ticks remember."""

    store: StoreWatch
    deadlines: Deadlines
    listings: Mapping[InstanceBackend, Listing] = field(default_factory=dict)
    results: dict[WorkspaceId, Result] = field(default_factory=dict)
    asked: set[WorkspaceId] = field(default_factory=set)  # got an errand since the listing was made
    adoption: AdoptionDue | None = None  # of a restore that has not ended
    suspects: dict[InstanceBackend, dict[WorkspaceId, datetime]] = field(default_factory=dict)  # missing since
    accepted_losses: Mapping[InstanceBackend, Word] = field(default_factory=dict)  # what was missing then is lost
    on_progress: Callable[[Workspace, JobSeen, datetime], None] = lambda _workspace, _job, _now: None
    _progress: dict[WorkspaceId, tuple[OpId, object]] = field(default_factory=dict)
    _mass_loss: set[InstanceBackend] = field(default_factory=set)

    def is_stale(self, workspace: Workspace) -> bool:
        """Whether nothing can be decided: its backend was not looked at, or a call was in flight meanwhile.

        What was looked at for its sake stays until there is a listing to go with it.
        """
        listing = self.listings.get(workspace.instance_backend)
        if listing is None:
            return not isinstance(self.results.get(workspace.id), Failed)
        return workspace.id in listing.busy or workspace.id in self.asked

    def sight(self, workspace: Workspace, now: datetime, *, archive_suspect: bool) -> Sight:
        """Everything that is known of one workspace at this tick."""
        seen = self._look(workspace, now)
        whole = archive_need(workspace, seen, now, suspected=archive_suspect)
        seen, need = self._with_archives(workspace, seen, whole)
        missing = seen.volume is not None and not seen.volume.exists
        suspect = missing and (_must_be_sure(workspace) or is_absence_unsure(workspace, seen))
        confirmed = seen.volume is not None and seen.volume.confirmed
        return Sight(seen, need, suspect and not confirmed, whole, suspect)

    def _look(self, workspace: Workspace, now: datetime) -> Seen:
        listing = self.listings.get(workspace.instance_backend)
        if listing is None:
            return Seen(store_out=self.store.is_out, deadline_from=now)
        jobs = listing.jobs_of(workspace.id)
        self._note_progress(workspace, jobs, now)
        return Seen(
            instance=listing.instance(workspace.id),
            volume=self._volume(workspace, listing, now),
            jobs=jobs,
            adoption_due=self.adoption is not None and self.adoption.concerns(workspace.id),
            store_out=self.store.is_out,
            deadline_from=self.deadlines.of(workspace),
        )

    def _volume(self, workspace: Workspace, listing: Listing, now: datetime) -> VolumeSeen | None:
        """The listing's answer, or the direct one; None while so many are missing that neither is believed."""
        volume, backend = listing.volume(workspace.id), workspace.instance_backend
        suspects = self.suspects.setdefault(backend, {})
        if not is_volume_suspect(workspace, volume) or workspace.status.phase is Phase.ERROR:
            suspects.pop(workspace.id, None)
            self._is_back(workspace)
        else:
            suspects.setdefault(workspace.id, now)
        outage = self._is_mass_loss(backend, len(suspects), len(suspects) + len(listing.volumes))
        if outage and workspace.id in suspects and not self._is_accepted(workspace):
            return None
        looked = self.results.get(workspace.id)
        if not volume.exists and isinstance(looked, Looked) and looked.volume is not None:
            return looked.volume
        return volume

    @property
    def mass_losses(self) -> frozenset[InstanceBackend]:
        """Backends that lack so many volumes that it is taken for an outage."""
        return frozenset(self._mass_loss)

    def accept_losses(self, words: Mapping[InstanceBackend, Word]) -> frozenset[WorkspaceId]:
        """Take an administrator's words; whom they are about, where they are news."""
        kept = {
            name: word for name, word in self.accepted_losses.items() if name in words and words[name].at == word.at
        }
        news = {name: self._meant(name, word) for name, word in words.items() if name not in kept}
        self.accepted_losses = kept | news
        return frozenset().union(*(word.missing or () for word in news.values()))

    def _meant(self, backend: InstanceBackend, word: Word) -> Word:
        """Whom it is about: as an earlier leader noted, else those that were missing before it was given."""
        if word.missing is not None:
            return word
        suspects = self.suspects.get(backend, {})
        return replace(word, missing=frozenset(who for who, since in suspects.items() if since <= word.at))

    def _is_accepted(self, workspace: Workspace) -> bool:
        word = self.accepted_losses.get(workspace.instance_backend)
        return word is not None and workspace.id in (word.missing or ())

    def _is_back(self, workspace: Workspace) -> None:
        """Or an error by now: no word that was given is about it any more."""
        if self._is_accepted(workspace):
            backend = workspace.instance_backend
            word = self.accepted_losses[backend]
            left = replace(word, missing=(word.missing or frozenset()) - {workspace.id})
            self.accepted_losses = {**self.accepted_losses, backend: left}

    def _is_mass_loss(self, backend: InstanceBackend, suspects: int, relied_on: int) -> bool:
        outage = looks_like_outage(suspects, relied_on)
        if outage and backend not in self._mass_loss:
            log.error(
                "many volumes are missing at once; this is taken for an outage", backend=backend, missing=suspects
            )
            self._mass_loss.add(backend)
        if not outage and backend in self._mass_loss:
            log.info("so many volumes are no longer missing", backend=backend, missing=suspects)
            self._mass_loss.discard(backend)
        return outage

    def _with_archives(self, workspace: Workspace, seen: Seen, need: Need) -> tuple[Seen, Need]:
        """Answers that have arrived; while the store is out, that is the answer."""
        status = workspace.status
        result = self.results.get(workspace.id)
        if need.is_none and result is None:
            return seen, need
        answers = result.archives if isinstance(result, Looked) else {}
        op_key = archive_key(workspace.id, status.op_id) if status.op_id is not None else None
        archive = answers.get(status.archive_key) if status.archive_key is not None else None
        op_archive = answers.get(op_key) if op_key is not None else None
        need = replace(
            need,
            archive=None if archive is not None else need.archive,
            op_archive=None if op_archive is not None else need.op_archive,
        )
        if self.store.is_out and not need.is_none:
            if not need.waits:
                return replace(seen, archive=archive, op_archive=op_archive), Need()
            archive = ArchiveSeen.UNREACHABLE if need.archive is not None else archive
            op_archive = ArchiveSeen.UNREACHABLE if need.op_archive is not None else op_archive
            need = Need()
        return replace(seen, archive=archive, op_archive=op_archive), need

    def _note_progress(self, workspace: Workspace, jobs: tuple[JobSeen, ...], now: datetime) -> None:
        """By the database's clock: a job's own may be wrong; that what it says has changed is all that counts."""
        op_id = workspace.status.op_id
        own = next((job for job in jobs if job.op_id == op_id), None)
        self.store.note_job(workspace, own)
        job = own or next(iter(jobs), None)  # one that the database does not remember may be waited for (finishing.py)
        if job is None:
            self._progress.pop(workspace.id, None)
            return
        mark = (job.op_id, (job.progress_at, job.bytes_done, job.files_done, job.state))
        if self._progress.get(workspace.id) != mark:
            self._progress[workspace.id] = mark
            self.deadlines.progressed(workspace.id, op_id, now)
            if own is not None:
                self.on_progress(workspace, own, now)


def _must_be_sure(workspace: Workspace) -> bool:
    """Whether somebody relies on that volume being gone, or being there."""
    if workspace.wish.deleted_at is not None:
        return workspace.status.home_ctx.volume is not VolumeState.NONE
    return workspace.status.home_ctx.volume is VolumeState.LIVE
