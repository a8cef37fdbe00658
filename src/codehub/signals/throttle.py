"""Logins that fail slow the next ones down: per user and per address, from the fifth failure on (SPEC section 11).

IPv6 is counted by /64, and by /56 and /48 too, which one customer may have all of: these are slowed down from the 17th
and from the 65th failure on, since many people may share them.

An attempt is charged before its password is looked at, so that many at once gain nothing, and forgiven when it was
right. The n-th failure from the fifth on costs 2^(n-5) seconds, up to a cap. Nobody can lock somebody else out with it:

- who is slowed down by their address cannot charge a user any more, and a user's cap is a minute;
- a browser that this user has logged in with before has a count of its own.

Names that belong to nobody are counted like others. What is kept is in Redis; while that is away each process counts
for itself by the same rules.
"""

import hashlib
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address

import structlog

from codehub.errors import OverLimit, Unavailable
from codehub.signals.connect import Redis, answering

log = structlog.get_logger(__name__)

FREE = 4  # failures that cost nothing
_PREFIXES = ((64, FREE), (56, 16), (48, 64))  # of IPv6, with failures that cost nothing
_LOGOUTS = 100  # a provider sends many at once
USER_CAP_SECONDS = 60
ADDRESS_CAP_SECONDS = 900
MEMORY_SECONDS = 3600  # after the last failure everything is forgotten
DEVICE_SECONDS = 90 * 24 * 3600
_PREFIX = "codehub:login:"
_MOST_IN_MEMORY = 10_000

# KEYS: counters. ARGV: MEMORY_SECONDS, the first delay, then a cap for each counter, then what is free for each.
# Returns the seconds to wait; with "0" the attempt is charged and may go on.
_CHARGE = """
local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
local wait = 0
for _, key in ipairs(KEYS) do
    wait = math.max(wait, tonumber(redis.call('HGET', key, 'until') or '0') - now)
end
if wait > 0 then return tostring(wait) end
for i, key in ipairs(KEYS) do
    local count = redis.call('HINCRBY', key, 'count', 1)
    local free = tonumber(ARGV[2 + #KEYS + i])
    if count > free then
        local delay = math.min(ARGV[2] * 2 ^ math.min(count - free - 1, 30), tonumber(ARGV[2 + i]))
        redis.call('HSET', key, 'until', string.format('%.6f', now + delay))
    end
    redis.call('EXPIRE', key, ARGV[1])
end
return '0'
"""

# KEYS: one counter. Take one charge back.
_FORGIVE = """
if redis.call('HINCRBY', KEYS[1], 'count', -1) <= 0 then
    redis.call('DEL', KEYS[1])
else
    redis.call('HDEL', KEYS[1], 'until')
end
"""


@dataclass(frozen=True, slots=True)
class Count:
    """Of failures."""

    key: str
    cap_seconds: int
    free: int = FREE


@dataclass(frozen=True, slots=True)
class Attempt:
    """One login under way: what it was charged to. The first is forgotten when it succeeds."""

    user: str
    charged: Sequence[Count]


@dataclass(slots=True)
class _Counter:
    count: int = 0
    until: float = 0.0
    last: float = 0.0


class LoginThrottle:
    """One per process. `first_delay` is what the fifth failure costs, in seconds."""

    def __init__(self, client: Redis, *, first_delay: float = 1.0) -> None:
        self._client = client
        self._first_delay = first_delay
        self._charge = client.register_script(_CHARGE)
        self._forgive = client.register_script(_FORGIVE)
        self._own: dict[str, _Counter] = {}  # counts while Redis is away

    async def begin(self, username: str, address: str | None, device: str | None = None) -> Attempt:
        """Charge an attempt, or raise OverLimit with the seconds to wait."""
        user = _digest(username.casefold())
        attempt = Attempt(user, (Count(f"{_PREFIX}user:{user}", USER_CAP_SECONDS), *_of_address(address)))
        if device and await self._knows(user, device):
            attempt = Attempt(user, (Count(f"{_PREFIX}of-device:{user}:{_digest(device)}", USER_CAP_SECONDS),))
        return await self._begun(attempt)

    async def begin_in_session(self, session: str) -> Attempt:
        """… of one who is logged in and gives their password again: counted by their session alone."""
        return await self._begun(Attempt("", (Count(f"{_PREFIX}in-session:{session}", USER_CAP_SECONDS),)))

    async def begin_logout(self, address: str | None) -> Attempt:
        """… of a provider that logs somebody out: counted by its address, and apart from logins."""
        return await self._begun(
            Attempt("", [Count(f"{each.key}:logout", each.cap_seconds, _LOGOUTS) for each in _of_address(address)])
        )

    async def _begun(self, attempt: Attempt) -> Attempt:
        wait = await self._charged(attempt)
        if wait > 0:
            seconds = max(1, math.ceil(wait - 0.01))  # what rounding adds is no second
            raise OverLimit(
                "There were too many failed logins.",
                f"Try again in {seconds} s.",
                code="too_many_attempts",
                retry_after=seconds,
            )
        return attempt

    async def succeeded(self, attempt: Attempt, device: str | None = None) -> None:
        """Forgive the attempt and the user's earlier failures; remember the browser."""
        first = attempt.charged[0].key
        await self.forgive(attempt)
        self._own.pop(first, None)
        try:
            with answering():
                await self._client.delete(first)
                if device:
                    await self._client.set(_device_key(attempt.user, device), b"1", ex=DEVICE_SECONDS)
        except Unavailable as error:
            log.warning("a login could not be noted", cause=str(error))

    async def forgive(self, attempt: Attempt) -> None:
        """Take the charge of this attempt back, as if it had not been made."""
        for each in attempt.charged:
            counter = self._own.get(each.key)
            if counter is not None:
                counter.count, counter.until = max(0, counter.count - 1), 0.0
        try:
            with answering():
                for each in attempt.charged:
                    await self._forgive([each.key])
        except Unavailable as error:
            log.warning("a login could not be noted", cause=str(error))

    async def knows(self, username: str, device: str) -> bool:
        """Whether this user has logged in with this browser before."""
        return await self._knows(_digest(username.casefold()), device)

    async def _knows(self, user: str, device: str) -> bool:
        try:
            with answering():
                return bool(await self._client.exists(_device_key(user, device)))
        except Unavailable:
            return False

    async def _charged(self, attempt: Attempt) -> float:
        charged = attempt.charged
        caps, free = [each.cap_seconds for each in charged], [each.free for each in charged]
        try:
            with answering():
                told = [MEMORY_SECONDS, self._first_delay, *caps, *free]
                return float(await self._charge([each.key for each in charged], told))
        except Unavailable as error:
            log.warning("failed logins are counted by this process alone", cause=str(error))
            return self._charge_own(attempt)

    def _charge_own(self, attempt: Attempt) -> float:
        now = time.monotonic()
        self._own = {key: each for key, each in self._own.items() if now - each.last < MEMORY_SECONDS}
        while len(self._own) > _MOST_IN_MEMORY:
            del self._own[next(iter(self._own))]
        counters = [(self._own.setdefault(each.key, _Counter()), each) for each in attempt.charged]
        wait = max(counter.until - now for counter, _ in counters)
        if wait > 0:
            return wait
        for counter, each in counters:
            counter.count, counter.last = counter.count + 1, now
            if counter.count > each.free:
                delay = self._first_delay * 2.0 ** min(counter.count - each.free - 1, 30)
                counter.until = now + min(delay, each.cap_seconds)
        return 0.0


def _digest(text: str) -> str:
    """Names are given by strangers, and may be a password in the wrong field: neither is kept."""
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:32]


def _of_address(address: str | None) -> Sequence[Count]:
    """Whoever is on this machine and whoever nobody can name are one: either could pass for the other."""
    parsed = ip_address(address) if address else None
    if isinstance(parsed, IPv6Address):
        parsed = parsed.ipv4_mapped or parsed
    if parsed is None or parsed.is_loopback:
        return (Count(f"{_PREFIX}address:here", ADDRESS_CAP_SECONDS),)
    if not isinstance(parsed, IPv6Address):
        return (Count(f"{_PREFIX}address:{parsed}", ADDRESS_CAP_SECONDS),)
    bits = int(parsed)
    return [
        Count(f"{_PREFIX}address:{bits >> 128 - size}/{size}", ADDRESS_CAP_SECONDS, free) for size, free in _PREFIXES
    ]


def _device_key(user: str, device: str) -> str:
    return f"{_PREFIX}device:{user}:{_digest(device)}"
