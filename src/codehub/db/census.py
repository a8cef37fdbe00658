"""How many workspaces are in each phase, and how many operations are under way.

One pass over all that are not gone (idx_workspaces_sweep), made once a minute by the leader, whoever asks for the
figures and however often.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from codehub.db.pool import Connection
from codehub.model.workspace import Operation, Phase

COUNT = """
SELECT phase::text, operation::text, count(*) FROM workspaces WHERE phase <> 'DELETED' GROUP BY phase, operation
"""


@dataclass(frozen=True, slots=True)
class Census:
    phases: Mapping[Phase, int]
    operations: Mapping[Operation, int]


async def count(conn: Connection) -> Census:
    phases: dict[Phase, int] = {}
    operations: dict[Operation, int] = {}
    for phase, operation, number in await (await conn.execute(COUNT)).fetchall():
        phases[Phase(phase)] = phases.get(Phase(phase), 0) + number
        operations[Operation(operation)] = operations.get(Operation(operation), 0) + number
    return Census(phases, operations)
