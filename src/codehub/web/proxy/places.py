"""Places for connections: how many there are, who gets one, and who gives theirs up.

- An address has so many places, and far fewer for connections that have not sent a whole request within a second:
  one more, and its own oldest one goes. IPv6 is counted by /64, by /56 and by /48: one customer may have all of it.
  A body belongs to its request, unless a workspace gets it: whoever is let in there is logged in.
- When all places are taken, the oldest connection that has not sent a whole request goes, else one that idles between
  two requests or takes no answer. So whoever only holds places keeps nobody out.
- The last places are for health checks, trusted proxies, and addresses from which somebody logged in came lately.
"""

from collections import Counter, OrderedDict, deque
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Protocol

from codehub.web.forwarded import Networks, is_trusted
from codehub.web.proxy.limits import Limits
from codehub.web.proxy.measures import Tally

_PREFIXES = ((64, 1), (56, 1), (48, 2))  # of IPv6, and how many times an address's places all of it has
_MOST_KNOWN = 50_000
_KNOWN_SECONDS = 3600.0


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a connection comes from, and the names that it is counted under."""

    counted: tuple[str, ...]
    is_preferred: bool = False  # a health check, or a trusted proxy


class Holder(Protocol):
    """A connection that has a place."""

    def give_way(self) -> None:
        """End: another one needs the place."""
        ...

    def idle_until(self) -> float | None:
        """When its time is over, if it waits for its next request, or does not take the answer to its last."""
        ...


def origin_of(address: str, trusted: Networks, health: Networks = ()) -> Origin:
    """A trusted proxy is not counted: its clients are many."""
    if is_trusted(address, trusted):
        return Origin((), is_preferred=True)
    is_preferred = is_trusted(address, health)
    if ":" not in address:
        return Origin((address,), is_preferred)
    bits = int(ip_address(address))
    return Origin(tuple(f"{bits >> (128 - size):x}/{size}" for size, _ in _PREFIXES), is_preferred)


def _times(name: str) -> int:
    return next((times for size, times in _PREFIXES if name.endswith(f"/{size}")), 1)


class Places:
    """Of one process. Times are monotonic."""

    def __init__(self, limits: Limits, tally: Tally | None = None) -> None:
        self.tally = tally or Tally()
        self._limits = limits
        self._taken = 0
        self._by_name: Counter[str] = Counter()
        self._unasked: OrderedDict[Holder, Origin] = OrderedDict()  # the oldest first
        self._unasked_by_name: dict[str, OrderedDict[Holder, float]] = {}  # … since when
        self._idle: deque[Holder] = deque()
        self._known: OrderedDict[str, float] = OrderedDict()  # until when

    def take(self, holder: Holder, origin: Origin, now: float) -> bool:
        """One more, to be left once in any case: whether there is room for it."""
        self._taken += 1
        for name in origin.counted:
            self._by_name[name] += 1
        if not all(self._has_room_at(name, now) for name in origin.counted):
            return False
        limits = self._limits
        most = limits.connections if self._is_preferred(origin, now) else limits.connections - limits.reserved
        if self._taken > most and not self._make_room():
            return False
        self.asks(holder, origin, now)
        return True

    def asks(self, holder: Holder, origin: Origin, now: float) -> None:
        """It has begun a request, and is watched until that is whole."""
        self._unasked[holder] = origin
        for name in origin.counted:
            self._unasked_by_name.setdefault(name, OrderedDict())[holder] = now

    def asked(self, holder: Holder) -> None:
        """It has sent a whole request, or one that a workspace gets, or has ended before."""
        origin = self._unasked.pop(holder, None)
        for name in origin.counted if origin is not None else ():
            others = self._unasked_by_name[name]
            del others[holder]
            if not others:
                del self._unasked_by_name[name]

    def leave(self, origin: Origin) -> None:
        self._taken -= 1
        for name in origin.counted:
            self._by_name[name] -= 1
            if not self._by_name[name]:
                del self._by_name[name]

    def know(self, origin: Origin, now: float) -> None:
        """Somebody logged in comes from there."""
        if origin.counted:
            name = origin.counted[0]
            self._known[name] = now + _KNOWN_SECONDS
            self._known.move_to_end(name)
            if len(self._known) > _MOST_KNOWN:
                self._known.popitem(last=False)

    def sweep(self, holders: Iterable[Holder], now: float) -> None:
        """Once a second: who has waited too long among too many goes; where places are few, see who could go."""
        for name, unasked in list(self._unasked_by_name.items()):
            most = _times(name) * self._limits.unasked_per_address
            while len(unasked) > most and self._show_out_oldest(unasked, now):
                pass
        self._idle.clear()
        if self._taken * 10 >= (self._limits.connections - self._limits.reserved) * 9:
            idle = [(until, each) for each in holders if (until := each.idle_until()) is not None]
            self._idle.extend(each for _, each in sorted(idle, key=lambda one: one[0]))

    def _is_preferred(self, origin: Origin, now: float) -> bool:
        return origin.is_preferred or self._known.get(origin.counted[0], 0.0) > now

    def _has_room_at(self, name: str, now: float) -> bool:
        limits, times, unasked = self._limits, _times(name), self._unasked_by_name.get(name)
        if self._by_name[name] > times * limits.connections_per_address:
            return unasked is not None and self._show_out_oldest(unasked)
        if unasked is not None and len(unasked) >= times * limits.unasked_per_address:
            self._show_out_oldest(unasked, now)
        return True

    def _show_out_oldest(self, unasked: "OrderedDict[Holder, float]", now: float | None = None) -> bool:
        """With a time only one that has had a second: what it sent may not have been read yet."""
        holder, since = next(iter(unasked.items()))
        if now is not None and now - since < self._limits.unasked_seconds:
            return False
        self._show_out(holder)
        return True

    def _make_room(self) -> bool:
        if self._unasked:
            self._show_out(next(iter(self._unasked)))
            return True
        while self._idle:
            holder = self._idle.popleft()
            if holder.idle_until() is not None:
                self._show_out(holder)
                return True
        return False

    def _show_out(self, holder: Holder) -> None:
        """Its place is left once its connection is lost, a moment later; until then it is no candidate again."""
        self.asked(holder)
        self.tally.turned_away += 1
        holder.give_way()
