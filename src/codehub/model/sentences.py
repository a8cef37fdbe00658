"""What people are told of a failure is a sentence, whoever said it: one line, a capital letter, a full stop."""

_LONGEST_LINE = 200


def sentence(text: str) -> str:
    """The text as a sentence; nothing stays nothing."""
    line = " ".join(text.split())
    if not line:
        return ""
    line = line[0].upper() + line[1:]
    return line if line[-1] in ".!?…" else f"{line}."


def number_of(n: int, one: str, many: str = "") -> str:
    """So many things: "1 workspace", "3 workspaces"; with a verb, `many` says both."""
    return f"{n} {one if n == 1 else many or f'{one}s'}"


def log_ends(log: str) -> str:
    """What a log says last, as a sentence: one line of it, since the rest is a stack trace more often than not."""
    lines = [
        line for line in ("".join(c for c in each if c.isprintable()).strip() for each in log.splitlines()) if line
    ]
    if not lines:
        return "It has written no log."
    last = lines[-1]
    return sentence(f"Its log ends with: {last if len(last) <= _LONGEST_LINE else f'{last[:_LONGEST_LINE]}…'}")
