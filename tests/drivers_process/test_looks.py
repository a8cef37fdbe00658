"""Looks through /proc that many share, and what they tell."""

import os
import subprocess
import sys
import threading
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from codehub.drivers.process.identity import is_there, proc
from codehub.drivers.process.looks import MARK, Look, Looks, look_now
from codehub.drivers.process.tree import Tree
from tests.support import eventually

OTHERS = 8


class Slow:
    """Looks that take until they are let go; the first may fail."""

    def __init__(self, *, fails: bool = False) -> None:
        self.made: list[Look] = []
        self.begun = 0
        self.let_go = threading.Event()
        self._fails = fails

    def __call__(self) -> Look:
        self.begun += 1
        first = self.begun == 1
        assert self.let_go.wait(60)
        if first and self._fails:
            raise OSError("too many open files")
        self.made.append(Look([], {}))
        return self.made[-1]


class Asking:
    """One who looks, and others who ask while it does."""

    def __init__(self, slow: Slow) -> None:
        looks, asked = Looks(slow), set[int]()

        def ask() -> Look:
            asked.add(threading.get_ident())
            return looks.fresh()

        def are_waiting() -> bool:
            return [sys._current_frames()[one].f_code.co_name for one in asked] == ["fresh"] * OTHERS

        with ThreadPoolExecutor(OTHERS + 1) as pool:
            self.first: Future[Look] = pool.submit(ask)
            eventually(lambda: slow.begun == 1, "the first look")
            asked.clear()
            self.others = [pool.submit(ask) for _ in range(OTHERS)]
            eventually(are_waiting, "everybody else")
            slow.let_go.set()


def test_who_asks_while_somebody_looks_shares_the_next_look() -> None:
    """Not that one: what they did before they asked may not be in it."""
    slow = Slow()
    asking = Asking(slow)
    assert asking.first.result() is slow.made[0]
    got = [other.result() for other in asking.others]
    assert all(look is not slow.made[0] for look in got)
    assert len(slow.made) < OTHERS


def test_a_look_that_fails_is_made_again_for_the_others() -> None:
    slow = Slow(fails=True)
    asking = Asking(slow)
    with pytest.raises(OSError, match="too many"):
        asking.first.result()
    assert {id(other.result()) for other in asking.others} <= {id(look) for look in slow.made}


def test_a_look_knows_marks_users_and_children() -> None:
    environment = {**os.environ, MARK: "0123456789abcdef"}
    with subprocess.Popen(["sleep", "500"], env=environment) as child:
        try:
            eventually(lambda: child.pid in look_now().marks, "its mark")
            look = look_now()
            assert look.marks[child.pid] == {"0123456789abcdef"}
            assert os.getuid() in look.users[child.pid]
            assert child.pid in look.children[os.getpid()]
            assert [found.pid for found in Tree(mark="0123456789abcdef", main=None, first=None).members()] == [
                child.pid
            ]
            found = proc(child.pid)
            assert found is not None
            assert is_there(found)
        finally:
            child.kill()
    assert not is_there(found)
