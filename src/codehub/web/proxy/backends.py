"""The API processes: each request goes to the next of them that is not known to be out."""

import time
from collections.abc import Sequence

from codehub.web.proxy.ports import Decision, Refusal, Route

UNREACHABLE = b"x-codehub-unreachable"  # said to the API: the workspace could not be reached
_OUT_SECONDS = 1.0
_REFUSAL = Refusal(503, "unavailable", "CodeHub is starting, or does not answer. Try again in a moment.")


class Backends:
    """`addresses` are unix:/path or host:port."""

    def __init__(self, addresses: Sequence[str]) -> None:
        self._routes = [Route(("api", address), address) for address in addresses]
        self._marked = [Route(("api", each), each, headers=((UNREACHABLE, b"1"),)) for each in addresses]
        self._out_until = dict.fromkeys(addresses, 0.0)
        self._turn = 0

    def route(self, *, unreachable: bool = False) -> Route:
        """`unreachable`: for a page that says that the workspace is."""
        routes = self._marked if unreachable else self._routes
        if len(routes) == 1:
            return routes[0]
        self._turn += 1
        now = time.monotonic()
        turns = [routes[(self._turn + each) % len(routes)] for each in range(len(routes))]
        return next((each for each in turns if self._out_until[each.address] <= now), turns[0])

    def failed(self, tried: Sequence[Route]) -> Decision:
        """One that this request has not tried yet, else a refusal: so this ends.

        Where all are known to be out, the one that has been for longest: while they are replaced one after the other,
        it is back already.
        """
        last = tried[-1]
        self._out_until[last.address] = time.monotonic() + _OUT_SECONDS
        seen = {each.address for each in tried}
        others = [each for each in (self._marked if last.headers else self._routes) if each.address not in seen]
        return min(others, key=lambda each: self._out_until[each.address], default=_REFUSAL)
