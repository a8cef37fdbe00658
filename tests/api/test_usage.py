"""`GET /workspaces/{id}/usage`: what the leader measured, beside the limits, with the addresses of ports."""

from datetime import UTC, datetime

from codehub.db.pool import Connection
from codehub.signals.connect import Redis
from codehub.signals.usage import HomeSize, Measurement, RedisUsage
from tests.api.caller import Caller, error

NOW = datetime(2026, 1, 1, tzinfo=UTC)


async def test_an_owner_sees_what_it_uses(ada: Caller, bob: Caller, owner: Connection, redis: Redis) -> None:
    identity = await ada.has(owner, "RUNNING")
    keeper = RedisUsage(redis)
    await keeper.add({identity: Measurement(NOW, 0.25, 1000)})
    await keeper.leave({identity: Measurement(NOW, 0.5, 2000, (8000,))})
    found = (await ada.get(f"/workspaces/{identity}/usage")).json()
    at = "2026-01-01T00:00:00Z"
    assert found == {
        "now": {"at": at, "cpus": 0.5, "memory_bytes": 2000},
        "day": [{"at": at, "cpus": 0.25, "memory_bytes": 1000}],
        "ports": [{"port": 8000, "url": f"/w/{identity}/.codehub/port/8000/"}],
        "limits": {"cpus": 2.0, "memory_bytes": 4 << 30},
        "home": None,
        "archive_bytes": None,
    }
    assert error(await bob.get(f"/workspaces/{identity}/usage")) == (404, "not_found")


async def test_nothing_is_known_of_one_that_was_not_measured(ada: Caller, owner: Connection) -> None:
    identity = await ada.has(owner, "STANDBY")
    found = (await ada.get(f"/workspaces/{identity}/usage")).json()
    assert (found["now"], found["day"], found["ports"]) == (None, [], None)


async def test_the_size_of_a_home_is_told_while_there_is_one(ada: Caller, owner: Connection, redis: Redis) -> None:
    kept, gone = await ada.has(owner, "STANDBY", home_ctx={"volume": "live"}), await ada.has_archived(owner)
    await RedisUsage(redis).leave_homes(dict.fromkeys([kept, gone], HomeSize(NOW, 7000)))
    found = (await ada.get(f"/workspaces/{kept}/usage")).json()
    assert found["home"] == {"at": "2026-01-01T00:00:00Z", "bytes": 7000}
    assert (await ada.get(f"/workspaces/{gone}/usage")).json()["home"] is None
