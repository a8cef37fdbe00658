"""Passwords: argon2id, in threads, two at a time; never logged, never stored.

64 MiB and two passes (RFC 9106; three times OWASP's least) cost a guesser what they cost us, so the number at work is
bounded: a flood of logins waits in a queue, for a limited time, and takes no more than 128 MiB.
"""

import asyncio
import base64
import secrets
import unicodedata
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from codehub.errors import Invalid, Unavailable

SHORTEST, LONGEST = 10, 1024
_WAIT_SECONDS = 15.0
_AT_ONCE = 2

T = TypeVar("T")

_hasher = PasswordHasher(time_cost=2, memory_cost=65536, parallelism=1, hash_len=32, salt_len=16)
_threads = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="passwords")


def _nobodys() -> str:
    """A hash that no password has, and that takes as long to check as any other."""
    salt, hashed = (base64.b64encode(bytes(size)).decode().rstrip("=") for size in (_hasher.salt_len, _hasher.hash_len))
    cost = f"m={_hasher.memory_cost},t={_hasher.time_cost},p={_hasher.parallelism}"
    return f"$argon2id$v=19${cost}${salt}${hashed}"


NOBODYS = _nobodys()


def check_rules(password: str, username: str) -> None:
    """Raise Invalid, saying which rule it breaks."""
    if len(password) < SHORTEST:
        raise Invalid(f"The password is too short: it needs at least {SHORTEST} characters.", code="weak_password")
    if len(password) > LONGEST:
        raise Invalid(f"The password is longer than {LONGEST} characters.", code="weak_password")
    if _normal(password).casefold() == _normal(username).casefold():
        raise Invalid("The password must not be the username.", code="weak_password")


def generate() -> str:
    """A password that nobody guesses and that can be typed: 80 random bits."""
    letters = "abcdefghjkmnpqrstuvwxyz23456789"  # none that looks like another
    return "-".join("".join(secrets.choice(letters) for _ in range(4)) for _ in range(4))


async def hashed(password: str) -> str:
    return await _in_thread(lambda: _hasher.hash(_normal(password)))


async def is_right(password: str, stored: str | None) -> bool:
    """Whether it is the one that was hashed. Without a hash, or with a foreign one, no; and that takes as long."""
    return await _in_thread(lambda: _verify(stored, _normal(password)))


def is_outdated(stored: str) -> bool:
    """Whether it was hashed with other parameters than today's."""
    return _hasher.check_needs_rehash(stored)


def _verify(stored: str | None, password: str) -> bool:
    try:
        return _hasher.verify(NOBODYS if stored is None else stored, password)
    except InvalidHashError:  # of an earlier product: it was never checked, which would be quick
        return stored != NOBODYS and _verify(NOBODYS, password)
    except VerificationError:
        return False


def _normal(text: str) -> str:
    """The same characters are the same password, whichever keyboard composed them."""
    return unicodedata.normalize("NFKC", text)


async def _in_thread(work: Callable[[], T]) -> T:
    try:
        async with asyncio.timeout(_WAIT_SECONDS):
            return await asyncio.get_running_loop().run_in_executor(_threads, work)
    except TimeoutError as error:
        raise Unavailable("Too many people are logging in.", "Try again in a moment.") from error
