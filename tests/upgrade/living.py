"""What an installation must do whichever version each of its parts is of."""

from collections.abc import Iterator
from itertools import count

from codehub.client import Client
from codehub.client.events import EventKind
from codehub.db import migrate
from tests.support import eventually
from tests.upgrade.parts import Installation, Part, Version

NAMES: Iterator[int] = count()


def lives(here: Installation, api: Part) -> None:
    """A workspace's whole life through this API, by whatever coordinator leads; what happens is told as it happens."""
    with here.client(api.url) as client:
        made = client.create_workspace(f"w{next(NAMES)}", desired_state="RUNNING", memo="kept")
        told = iter(client.events())
        eventually(
            lambda: (
                (event := next(told)).kind is EventKind.UPDATED
                and event.workspace is not None
                and (event.workspace.id, event.workspace.phase) == (made.id, "RUNNING")
            ),
            "that it runs is told",
            60,
        )
        becomes(client, made.id, "RUNNING")
        for wanted in ("STANDBY", "ARCHIVED", "RUNNING"):
            client.set_state(made.id, wanted)
            becomes(client, made.id, wanted)
        assert client.workspace(made.id).memo == "kept"
        assert [each.phase for each in client.history(made.id)].count("ERROR") == 0
        client.delete_workspace(made.id)
        eventually(lambda: client.workspace(made.id).deleted_at is not None, "it is in the trash", 60)


def becomes(client: Client, identity: object, phase: str) -> None:
    def is_there() -> bool:
        row = client.workspace(str(identity))
        assert row.error is None
        return row.phase == phase and row.operation == "NONE"

    eventually(is_there, f"it becomes {phase}", 60)


def migrated(here: Installation, version: Version) -> None:
    done = version.run("migrate", **here.environment)
    assert done.returncode == 0, done.stderr


def schema(here: Installation) -> str:
    found = migrate.schema_version(here.database)
    assert found is not None
    return found
