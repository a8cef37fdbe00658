"""The chaos drill: kill the parts of a test installation in turn while a few users work, and tell what they noticed."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass

import httpx

from codehub.drills.parts import Part
from codehub.drills.watching import API, Noticed, Users, asked, state_of
from codehub.errors import StartError

SETTLE_SECONDS = 3.0  # of good answers, before the next part is killed
_GIVE_UP_SECONDS = 120.0
_POLL_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Death:
    """What users noticed of one part's death."""

    part: str
    noticed: Noticed
    is_back: bool  # it, or whoever took its place; True where that cannot be seen from here
    answers_again: bool


@dataclass(frozen=True, slots=True)
class Report:
    deaths: Sequence[Death]
    changed: Mapping[str, str]  # workspaces that are not as they were, and how
    lost_writes: bool
    unseen: str = ""  # why nobody could look how things are afterwards

    @property
    def is_well(self) -> bool:
        harmed = self.changed or self.lost_writes or self.unseen
        return not harmed and all(death.is_back and death.answers_again for death in self.deaths)

    def as_dict(self) -> dict[str, object]:
        return {**asdict(self), "is_well": self.is_well}


async def drill(
    client: httpx.AsyncClient,
    parts: Sequence[Part],
    *,
    say: Callable[[str], None],
    settle_seconds: float = SETTLE_SECONDS,
    give_up_seconds: float = _GIVE_UP_SECONDS,
) -> Report:
    """Make a workspace of its own, kill each part once, compare, and clear up.

    Where nothing answers any more after a death, the other parts are spared: nobody could tell what theirs would do.
    """
    made = await asked(client, "POST", f"{API}/workspaces", json={"name": "chaos drill", "desired_state": "ARCHIVED"})
    identity = str(made["id"])
    try:
        before = await _settled(client, identity, give_up_seconds)
        users = Users(client, identity)
        users.start()
        deaths: list[Death] = []
        try:
            await _calm(users, settle_seconds, give_up_seconds)
            for part in parts:
                users.next_stretch()
                say(f"killing {part.name}")
                deaths.append(await _kill(users, part, settle_seconds, give_up_seconds))
                if not deaths[-1].answers_again:
                    break
        finally:
            await users.stop()
        return await _compared(client, users, identity, before, deaths)
    finally:
        try:
            await asked(client, "DELETE", f"{API}/workspaces/{identity}", params={"purge": "true"})
        except StartError as error:
            say(f"The drill's own workspace {identity} is left: {error}")


async def _compared(
    client: httpx.AsyncClient,
    users: Users,
    identity: str,
    before: Mapping[str, tuple[str, str]],
    deaths: Sequence[Death],
) -> Report:
    """What was noticed is told in any case, also where nobody answers any more."""
    try:
        after = await state_of(client)
        memo = (await asked(client, "GET", f"{API}/workspaces/{identity}"))["memo"]
    except StartError as error:
        return Report(deaths, {}, lost_writes=False, unseen=str(error))
    changed = {one: f"{before[one]} → {after.get(one, 'gone')}" for one in before if after.get(one) != before[one]}
    return Report(deaths, changed, lost_writes=not users.written <= int(memo or 0) <= users.tried)


async def _kill(users: Users, part: Part, settle_seconds: float, give_up_seconds: float) -> Death:
    before = set(part.living()) if part.living else set()
    await asyncio.to_thread(part.kill)
    loop = asyncio.get_running_loop()
    until = loop.time() + give_up_seconds
    while part.living is not None and loop.time() < until:
        now = set(await asyncio.to_thread(part.living))
        if len(now) >= 1 and now != before:
            break
        await asyncio.sleep(_POLL_SECONDS)
    answers = await _calm(users, settle_seconds, max(1.0, until - loop.time()))
    # Only now: at first they may have been children that outlived it for a moment.
    is_back = part.living is None or bool(await asyncio.to_thread(part.living))
    return Death(part.name, users.next_stretch(), is_back, answers)


async def _calm(users: Users, settle_seconds: float, give_up_seconds: float) -> bool:
    """Whether, in time, requests were answered well for so long, up to the last answer: silence may be an outage."""
    loop = asyncio.get_running_loop()
    until = loop.time() + give_up_seconds
    failed, since = users.noticed.failed, loop.time()
    while loop.time() < until:
        if users.noticed.failed != failed or users.quiet_for > 1.0:
            failed, since = users.noticed.failed, loop.time()
        if loop.time() - users.quiet_for - since >= settle_seconds:
            return True
        await asyncio.sleep(_POLL_SECONDS)
    return False


async def _settled(client: httpx.AsyncClient, identity: str, seconds: float) -> dict[str, tuple[str, str]]:
    """The workspaces once the drill's own one is archived: until then they change by themselves."""
    try:
        async with asyncio.timeout(seconds):
            while True:
                found = await state_of(client)
                if identity in found and found[identity][0] == "ARCHIVED":
                    return found
                await asyncio.sleep(_POLL_SECONDS)
    except TimeoutError:
        raise StartError(
            f"The drill's own workspace was not made within {seconds:.0f} s: not all was well before.",
            "See: codehub doctor",
        ) from None
