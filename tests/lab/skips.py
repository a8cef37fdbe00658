"""What a run has not tested, why, and which command would: one table at its end."""

from collections import Counter
from collections.abc import Iterable, Mapping

_GET = "; get it: "
_NOTHING = "-"


def reason(what: str, get: str) -> str:
    """Of a skipped test: what is not there, and the command that gets it."""
    return f"{what}{_GET}{get}"


def table(reasons: Iterable[str], left_out: Mapping[str, int]) -> list[str]:
    """Its lines: the most frequent first. `left_out` are tests that were not even tried: how many, by reason."""
    counted = Counter(reasons) + Counter(left_out)
    if not counted:
        return []
    rows = [("tests", "what they need", "get it")]
    for text, number in sorted(counted.items(), key=lambda each: (-each[1], each[0])):
        what, _, get = text.removeprefix("Skipped: ").partition(_GET)
        rows.append((str(number), what, get or _NOTHING))
    wide = max(len(what) for _, what, _ in rows)
    return [f"{number:>5}  {what:<{wide}}  {get}" for number, what, get in rows]
