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

    def failed(self, route: Route) -> Decision:
        """Another one that is not known to be out, else a refusal: so this ends."""
        now = time.monotonic()
        self._out_until[route.address] = now + _OUT_SECONDS
        routes = self._marked if route.headers else self._routes
        return next((each for each in routes if self._out_until[each.address] <= now), _REFUSAL)
