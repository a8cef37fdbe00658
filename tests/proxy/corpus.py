"""The corpus: requests and answers as bytes, each with what must come of it (corpus/*.txt say how to read a line)."""

import re
from collections.abc import Sequence
from pathlib import Path

_FOLDER = Path(__file__).parent / "corpus"
_REPEATED = re.compile(r"\{\{(.*?)\|([0-9]+)\}\}")


def read(name: str) -> Sequence[tuple[str, bytes]]:
    """What is expected, and the bytes."""
    lines = (_FOLDER / f"{name}.txt").read_text(encoding="ascii").splitlines()
    parted = [line.split("\t") for line in lines if line and not line.startswith("#")]
    return [(expected, _bytes(text)) for expected, text in parted]


def line_of(expected: str, raw: bytes) -> str:
    """As it stands in the corpus."""
    return f"{expected}\t{raw.decode('latin-1').encode('unicode-escape').decode()}"


def _bytes(text: str) -> bytes:
    whole = _REPEATED.sub(lambda found: found[1] * int(found[2]), text)
    return whole.encode("ascii").decode("unicode-escape").encode("latin-1")
