"""What must still be somewhere after the database went back in time, whatever its rows say.

Rows that are older than the world may show an older home; what was newest must then be on a volume or in an archive of
its workspace, untouched, until somebody decided. Workspaces that the database no longer knows are among them.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from codehub.model.names import parse_archive_key
from codehub.model.workspace import Workspace, WorkspaceId

if TYPE_CHECKING:
    from tests.simulation.ledger import Ledger


@dataclass
class Kept:
    ledger: "Ledger"
    _versions: dict[WorkspaceId, set[int]] = field(default_factory=dict)
    _floor: dict[WorkspaceId, int] = field(default_factory=dict)  # what an adoption promised: nothing older is shown

    def went_back(self, before: Mapping[WorkspaceId, Workspace]) -> None:
        """The database did; `before` are the rows that it had."""
        for identity, expectation in self.ledger.expected.items():
            expectation.travelled = True
            expectation.visits.clear()  # the older database knows nothing of them
            self._floor.pop(identity, None)
            if expectation.given_up or expectation.damaged or expectation.newest == self.ledger.nothing:
                continue
            if identity in before and _is_uncopied(before[identity]):
                continue  # what it expects is its source's
            if expectation.newest in self._there(identity):
                self._versions.setdefault(identity, set()).add(expectation.newest)
            elif identity not in before or self.ledger.is_forgotten(before[identity]):
                expectation.given_up = True  # its trash expired, and has come back without it
            else:
                self.ledger.fail(f"version {expectation.newest} was lost before", identity)

    def adopted(self, ids: Collection[WorkspaceId]) -> None:
        """A restore has given these their newest archive that is whole."""
        for identity in ids:
            whole = [
                (stored.modified_at, key, self.ledger.version(stored.home))
                for key, stored in self.ledger.surroundings.stored.items()
                if parse_archive_key(key).workspace_id == identity
                if stored.has_object and stored.has_meta and not stored.damaged
            ]
            version = max(whole)[2] if whole else None
            if version is not None and not self.ledger.expected[identity].given_up:
                self._floor[identity] = version

    def overwritten(self, workspace_id: WorkspaceId, version: int | None) -> None:
        """Its user has written over that."""
        if version is not None:
            self._versions.get(workspace_id, set()).discard(version)

    def chosen(self, workspace_id: WorkspaceId, version: int) -> None:
        """Its owner has decided for that one: what is older may go."""
        newer = {kept for kept in self._versions.get(workspace_id, ()) if kept > version}
        self._versions[workspace_id] = newer

    def given_up(self, workspace_id: WorkspaceId) -> None:
        self._versions.pop(workspace_id, None)
        self._floor.pop(workspace_id, None)

    def check(self, workspace_id: WorkspaceId, shown: int | None = None) -> None:
        """`shown`: what its row calls live."""
        wanted = self._versions.get(workspace_id)
        if wanted and (missing := wanted - self._there(workspace_id)):
            self.ledger.fail(f"version {min(missing)} of a lost future is nowhere any more", workspace_id)
        floor = self._floor.get(workspace_id, 0)
        if shown is not None and self.ledger.nothing < shown < floor:
            self.ledger.fail(f"{shown} is shown although {floor} was adopted", workspace_id)

    def check_all(self) -> None:
        for workspace_id in self._versions:
            self.check(workspace_id)

    def _there(self, workspace_id: WorkspaceId) -> set[int | None]:
        surroundings = self.ledger.surroundings
        found = {
            self.ledger.version(stored.home)
            for key, stored in (*surroundings.stored.items(), *surroundings.away.items())
            if parse_archive_key(key).workspace_id == workspace_id
            if stored.has_object and stored.has_meta and not stored.damaged
        }
        volumes = (world.volumes.get(workspace_id) for world in surroundings.worlds.values())
        return found | {self.ledger.version(volume.home) for volume in volumes if volume is not None}


def _is_uncopied(row: Workspace) -> bool:
    """Whether it was to begin as a copy, and has nothing of its own."""
    return row.source_archive is not None and row.status.archive_key is None and not row.status.home_ctx.blank
