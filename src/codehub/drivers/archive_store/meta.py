"""The meta beside an archive: what its bytes must be. Written last, it is the commit marker.

Two lines, `sha256:{hex}` and `size:{bytes}`. The second line may be missing: archives made by the first generation
have one line only, and the checksum alone is enough to tell a whole archive. Anything else is a damaged meta.
"""

import re
from dataclasses import dataclass

MOST_BYTES = 256  # two lines are 100 bytes or less
_FORM = re.compile(rb"sha256:([0-9a-f]{64})(?:\nsize:([0-9]{1,18}))?\n?")

# The archive of an empty home, `head -c 1024 /dev/zero | zstd -3`: two zero blocks are a tar of nothing. A constant, so
# that it is the same whoever makes it, and two who make it at once cannot disagree.
EMPTY_ARCHIVE = bytes.fromhex("28b52ffd6000034d00001000000100fb2b8005")


@dataclass(frozen=True, slots=True)
class Meta:
    """What an archive's bytes must be."""

    sha256: str
    size: int

    def encode(self) -> bytes:
        return f"sha256:{self.sha256}\nsize:{self.size}\n".encode()


def parse(text: bytes, found_size: int) -> Meta | None:
    """The meta of an object of the size that was found; None if the text is no meta."""
    match = _FORM.fullmatch(text)
    if match is None:
        return None
    return Meta(match[1].decode(), found_size if match[2] is None else int(match[2]))
