"""What an `image_ref` may be: a short name, or an image reference, each only as the allow-list says.

An entry of the list is a name of the catalogue, a reference (`codercom/code-server:latest`), or a pattern of references
(`registry.example/team/*`). An entry that is no pattern allows exactly itself: no tag and no registry is thought of. In
a pattern `*` stands for anything but `/`, and at the end after a `/` for everything below, so no pattern that names a
registry reaches another one.
"""

import re
from collections.abc import Iterable
from functools import lru_cache

LONGEST = 512

_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_HOST = rf"{_LABEL}(?:\.{_LABEL})*(?::[0-9]{{1,5}})?"
_PART = r"[a-z0-9]+(?:(?:\.|__?|-+)[a-z0-9]+)*"
_TAG = r":[A-Za-z0-9_][A-Za-z0-9._-]{0,127}"
_DIGEST = r"@[a-z0-9]+(?:[.+_-][a-z0-9]+)*:[0-9a-fA-F]{32,128}"
_REFERENCE = re.compile(rf"(?:{_HOST}/)?{_PART}(?:/{_PART})*(?:{_TAG})?(?:{_DIGEST})?")
_PATTERN = re.compile(r"[A-Za-z0-9*][A-Za-z0-9._:/@*-]*")
_EVERYTHING_BELOW = "/*"


def is_reference(text: str) -> bool:
    """Whether it names an image as engines and clusters do, and could not be a short name."""
    return len(text) <= LONGEST and any(sign in text for sign in "/:@") and _REFERENCE.fullmatch(text) is not None


def is_pattern(entry: str) -> bool:
    """Whether an entry of the allow-list stands for many references."""
    return len(entry) <= LONGEST and "*" in entry and _PATTERN.fullmatch(entry) is not None


def is_allowed(image_ref: str, entries: Iterable[str]) -> bool:
    return any(allows(entry, image_ref) for entry in entries)


def allows(entry: str, image_ref: str) -> bool:
    if not is_pattern(entry):
        return entry == image_ref
    return is_reference(image_ref) and _matcher(entry).fullmatch(image_ref) is not None


def usual(entries: Iterable[str]) -> str | None:
    """What a workspace is that names nothing: the first that is one image."""
    return next((entry for entry in entries if not is_pattern(entry)), None)


@lru_cache(maxsize=256)
def _matcher(pattern: str) -> re.Pattern[str]:
    below = pattern.endswith(_EVERYTHING_BELOW) or pattern == "*"
    fixed = pattern[:-1] if below else pattern
    return re.compile("[^/]*".join(map(re.escape, fixed.split("*"))) + (".+" if below else ""))
