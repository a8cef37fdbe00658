"""Whoever only holds places keeps nobody out: the rules, and five addresses that try."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace

import pytest

from codehub.web.forwarded import networks
from codehub.web.proxy.limits import Limits
from codehub.web.proxy.places import Origin, Places, origin_of
from codehub.web.proxy.ports import Route
from tests.proxy.world import SECONDS, WORKSPACE, Peer, PlainGate, Proxy, echo_heads, proxy, upstream
from tests.support import eventually

GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
FEW = Limits(connections=20, connections_per_address=10, unasked_per_address=3, drain_seconds=0.1, tunnel_seconds=0.1)


@dataclass(eq=False)
class Holder:
    """A connection."""

    origin: Origin
    leaving: list["Holder"]
    until: float | None = None
    has_gone: bool = False

    def give_way(self) -> None:
        self.has_gone = True
        self.leaving.append(self)

    def idle_until(self) -> float | None:
        return self.until


@dataclass
class Crowd:
    """Who is there; whoever gives way leaves at once."""

    places: Places
    all: dict[Holder, None] = field(default_factory=dict)  # in the order they came
    leaving: list[Holder] = field(default_factory=list)
    now: float = 0.0

    def comes(self, address: str, *, asks: bool = False, drips: bool = False, health: bool = False) -> Holder | None:
        """Who came, or None if there was no room. `drips` begins a second request, whose body never ends."""
        networks_of_health = networks([address]) if health else ()
        holder = Holder(origin_of(address, networks(["10.0.0.0/8"]), networks_of_health), self.leaving)
        has_room = self.places.take(holder, holder.origin, self.now)
        if not has_room:
            self.places.leave(holder.origin)
            return None
        self.all[holder] = None
        self.sort_out()
        if asks or drips:
            self.places.asked(holder)
        if drips:
            self.places.asks(holder, holder.origin, self.now)
        return holder

    def sort_out(self) -> None:
        while self.leaving:
            holder = self.leaving.pop()
            del self.all[holder]
            self.places.asked(holder)
            self.places.leave(holder.origin)

    def sweep(self) -> None:
        self.places.sweep(self.all, self.now)
        self.sort_out()


@pytest.fixture
def crowd() -> Crowd:
    return Crowd(Places(FEW))


def test_an_address_has_far_fewer_places_until_it_asks(crowd: Crowd) -> None:
    silent = [crowd.comes("192.0.2.1") for _ in range(3)]
    crowd.now = 2.0
    fourth = crowd.comes("192.0.2.1")
    assert fourth is not None
    assert silent[0] is not None
    assert silent[0].has_gone
    assert [each for each in silent if each is not None and not each.has_gone] == silent[1:]
    other = crowd.comes("192.0.2.2")
    assert other is not None
    assert crowd.places.tally.turned_away == 1, "another address has its own"


def test_many_who_ask_at_once_are_not_taken_for_silent(crowd: Crowd) -> None:
    """Behind one address, after a restart: what they sent may not have been read yet."""
    honest = [crowd.comes("192.0.2.1") for _ in range(9)]
    assert not any(each is None or each.has_gone for each in honest)
    for each in honest[:7]:
        assert each is not None
        crowd.places.asked(each)
    crowd.now = 2.0
    crowd.sweep()
    assert crowd.places.tally.turned_away == 0


def test_who_stays_silent_among_too_many_goes_after_a_second(crowd: Crowd) -> None:
    silent = [crowd.comes("192.0.2.1") for _ in range(9)]
    crowd.now = 1.5
    crowd.sweep()
    assert [each is not None and each.has_gone for each in silent] == [True] * 6 + [False] * 3


def test_whoever_works_has_all_places_of_an_address(crowd: Crowd) -> None:
    working = [crowd.comes("192.0.2.1", asks=True) for _ in range(10)]
    assert None not in working
    assert crowd.comes("192.0.2.1") is None
    assert not any(each is not None and each.has_gone for each in working)


@pytest.mark.parametrize(
    ("pattern", "most"),
    [("2001:db8:1:1::{}", 10), ("2001:db8:1:1{:02x}::1", 10), ("2001:db8:1:{:x}00::1", 18)],
    ids=["/64", "/56", "/48"],
)
def test_a_network_of_one_customer_is_counted_as_one(crowd: Crowd, pattern: str, most: int) -> None:
    came = [crowd.comes(pattern.format(number), asks=True) for number in range(1, 30)]
    assert sum(each is not None for each in came) == most


def test_when_all_places_are_taken_the_oldest_that_asked_nothing_goes(crowd: Crowd) -> None:
    for number in range(6):
        for _ in range(2):
            crowd.comes(f"192.0.2.{number}", asks=True)
    silent = [crowd.comes(f"198.51.100.{number}") for number in range(6)]
    late = crowd.comes("203.0.113.1")
    assert late is not None
    assert [each is not None and each.has_gone for each in silent] == [True, *[False] * 5]


def test_then_one_that_idles_goes_the_longest_first(crowd: Crowd) -> None:
    came = [crowd.comes(f"192.0.2.{number}", asks=True) for number in range(18)]
    idle = [each for each in came if each is not None]
    for number, each in enumerate(idle[:3]):
        each.until = 50.0 - number
    crowd.sweep()
    idle[2].until = None  # it asks again, in that moment
    assert crowd.comes("203.0.113.1", asks=True) is not None
    assert [each.has_gone for each in idle[:4]] == [False, True, False, False]
    assert crowd.comes("203.0.113.2", asks=True) is not None
    assert crowd.comes("203.0.113.3", asks=True) is None, "everybody else works"


def test_the_last_places_are_for_health_checks_and_for_whoever_is_logged_in(crowd: Crowd) -> None:
    for number in range(18):
        assert crowd.comes(f"192.0.2.{number}", asks=True) is not None
    assert crowd.comes("203.0.113.1") is None
    assert crowd.comes("127.0.0.1", health=True, asks=True) is not None
    crowd.places.know(origin_of("203.0.113.1", ()), crowd.now)
    assert crowd.comes("203.0.113.1", asks=True) is not None
    crowd.now = 4000.0
    assert crowd.comes("203.0.113.1") is None, "that was more than an hour ago"


def test_a_trusted_proxy_is_not_counted_but_has_its_places(crowd: Crowd) -> None:
    came = [crowd.comes("10.0.0.1", asks=True) for _ in range(21)]
    assert sum(each is not None for each in came) == 20


def one_of_five_networks(number: int) -> str:
    """An address of another /56 each time, of five /48."""
    return f"2001:db8:{number % 5}:{(number // 5 % 250 + 1) << 8:x}::1"


SCALED = replace(FEW, connections=200, connections_per_address=40, unasked_per_address=4)  # as 20,000 to 2,048


def test_five_networks_whose_bodies_never_end_lock_nobody_out() -> None:
    """Five IPv6 /48 have more places than there are: twice an address's each."""
    crowd = Crowd(Places(SCALED))
    for number in range(400):
        crowd.comes(one_of_five_networks(number), drips=True)
        crowd.now += 0.01
    crowd.sweep()
    for number in range(20):
        crowd.now += 2.0
        crowd.sweep()
        assert crowd.comes(f"192.0.2.{number}", asks=True) is not None
    dripping = [each for each in crowd.all if "/64" in each.origin.counted[0]]
    assert len(dripping) == 5 * 2 * SCALED.unasked_per_address, "an eighth of the places"


def test_ten_thousand_honest_connections_keep_their_places() -> None:
    """With the limits of production: a hundred offices, all of them idle, while five networks only hold places."""
    crowd = Crowd(Places(Limits()))
    honest = [crowd.comes(f"198.51.{number // 50 % 2}.{number % 50}", asks=True) for number in range(10_000)]
    assert None not in honest
    for each in honest:
        assert each is not None
        each.until = 75.0  # the first to make room, if it had to be made
    for number in range(20_480):
        crowd.comes(one_of_five_networks(number), drips=number % 2 == 0)
        crowd.now += 0.001
        if number % 2000 == 0:
            crowd.sweep()
    crowd.sweep()
    assert not any(each is None or each.has_gone for each in honest)
    assert crowd.comes("192.0.2.1", asks=True) is not None


# On real sockets.


@contextmanager
def running(limits: Limits) -> Iterator[Proxy]:
    with upstream(echo_heads) as there, proxy(PlainGate(Route("one", there.address, WORKSPACE)), limits) as here:
        yield here


def comes_from(address: str, here: Proxy) -> Peer:
    here.clients.append(Peer(socket.create_connection(("127.0.0.1", here.port), SECONDS, source_address=(address, 0))))
    return here.clients[-1]


def test_five_addresses_with_half_heads_lock_nobody_out() -> None:
    with running(replace(FEW, connections=40, unasked_seconds=0.0)) as here:
        half = [comes_from(f"127.0.1.{number % 5}", here) for number in range(200)]
        for peer in half:
            with suppress(OSError):  # it has gone already
                peer.send(b"GET / HTTP/1.1\r\nHost: ")
        for number in range(3):
            honest = comes_from(f"127.0.2.{number}", here)
            honest.send(GET)
            assert honest.answer()[0] == 200


def test_five_addresses_with_bodies_that_never_end_lock_nobody_out() -> None:
    """Also on connections that have asked for something before, and of exchanges that no workspace gets."""

    def api(peer: Peer) -> None:
        while peer.head():
            peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    limits = replace(FEW, connections=40, unasked_seconds=0.0)
    with upstream(api) as there, proxy(PlainGate(Route("api", there.address)), limits) as here:
        for number in range(100):
            peer = comes_from(f"127.0.1.{number % 5}", here)
            with suppress(OSError, EOFError):  # it has gone already
                peer.send(GET)
                peer.answer()
                peer.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9000\r\n\r\nx")
        for number in range(3):
            honest = comes_from(f"127.0.2.{number}", here)
            honest.send(GET)
            assert honest.answer()[0] == 200


def test_what_a_workspace_gets_may_take_its_time() -> None:
    with running(replace(FEW, connections=40, unasked_seconds=0.0)) as here:
        uploads = []
        for number in range(8):
            uploads.append(comes_from("127.0.1.1", here))
            uploads[-1].send(b"PUT /file HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nx")
            eventually(lambda number=number: len(here.gate.requests) > number, "it is at it")  # type: ignore[misc]
        for peer in uploads:
            peer.send(b"y")
            assert peer.answer()[0] == 200


def test_when_full_a_half_sent_head_makes_room_for_a_whole_one() -> None:
    with running(replace(FEW, connections=4, connections_per_address=10, unasked_per_address=10)) as here:
        half = [here.connect() for _ in range(4)]
        for peer in half:
            peer.send(b"GET / HTTP/1.1\r\n")
        honest = here.connect()
        honest.send(GET)
        assert honest.answer()[0] == 200
        with pytest.raises(ConnectionResetError):
            half[0].rest()
        half[3].send(b"Host: a\r\n\r\n")
        assert half[3].answer()[0] == 200, "a younger one may go on"


def test_when_full_a_connection_that_idles_makes_room() -> None:
    with running(replace(FEW, connections=4)) as here:
        idle = [here.connect() for _ in range(4)]
        for peer in idle:
            peer.send(GET)
            assert peer.answer()[0] == 200

        def is_let_in() -> bool:
            peer = here.connect()
            try:
                peer.send(GET)
                return peer.answer()[0] == 200
            except (OSError, EOFError):
                return False
            finally:
                peer.close()

        eventually(is_let_in, "the sweep saw who idles")


def test_an_address_from_which_somebody_logged_in_asked_gets_in_when_it_is_full() -> None:
    """The API says so, to the proxy alone."""

    def api(peer: Peer) -> None:
        while (head := peer.head()) and b"/slow" not in head:
            told = b"x-codehub-login: 1\r\n" if b"cookie" in head else b""
            peer.send(b"HTTP/1.1 200 OK\r\n%bContent-Length: 2\r\n\r\nok" % told)
        peer.sock.settimeout(None)
        peer.sock.recv(1)

    working = b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n"
    with upstream(api) as there, proxy(PlainGate(Route("api", there.address)), FEW) as here:
        person = comes_from("127.0.1.1", here)
        person.send(b"GET / HTTP/1.1\r\nHost: a\r\nCookie: s\r\n\r\n")
        assert b"x-codehub-login" not in person.answer()[1]
        others = [comes_from(f"127.0.2.{number}", here) for number in range(17)]
        for peer in others:
            peer.send(GET)
            assert peer.answer()[0] == 200
            peer.send(working)
        eventually(lambda: len(here.gate.requests) == 1 + 2 * len(others), "all of them are at it")
        assert comes_from("127.0.3.1", here).answer()[0] == 503
        again = comes_from("127.0.1.1", here)
        again.send(GET)
        assert again.answer()[0] == 200
