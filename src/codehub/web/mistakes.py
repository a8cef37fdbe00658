"""What is wrong with a request, as a sentence: where it is and what belongs there, in nobody's programming language."""

import re
from collections.abc import Callable, Mapping
from typing import Any

Context = Mapping[str, Any]

_MEMBER = re.compile(r"<\w+\.\w+: ([^>]*)>")

# By pydantic's kinds of error. What is not here keeps its text.
_SAID: Mapping[str, Callable[[Context], str]] = {
    "missing": lambda _: "this is missing",
    "extra_forbidden": lambda _: "there is no such field",
    "string_type": lambda _: "must be a text",
    "string_unicode": lambda _: "must be a text that can be written as UTF-8",
    "string_pattern_mismatch": lambda _: "has characters that are not allowed here",
    "string_too_short": lambda given: _at_least(given["min_length"], "character"),
    "string_too_long": lambda given: f"must not have more than {given['max_length']} characters",
    "too_short": lambda given: _at_least(given["min_length"], "item"),
    "too_long": lambda given: f"must not have more than {given['max_length']} items",
    "int_type": lambda _: "must be a whole number",
    "int_parsing": lambda _: "must be a whole number",
    "int_from_float": lambda _: "must be a whole number",
    "float_type": lambda _: "must be a number",
    "float_parsing": lambda _: "must be a number",
    "finite_number": lambda _: "must be a number",
    "bool_type": lambda _: "must be true or false",
    "bool_parsing": lambda _: "must be true or false",
    "greater_than_equal": lambda given: f"must be at least {given['ge']}",
    "less_than_equal": lambda given: f"must be at most {given['le']}",
    "uuid_type": lambda _: "must be an id, in the form of a UUID",
    "uuid_parsing": lambda _: "must be an id, in the form of a UUID",
    "enum": lambda given: f"must be {_plain(given['expected'])}",
    "literal_error": lambda given: f"must be {_plain(given['expected'])}",
    "list_type": lambda _: "must be a list",
    "dict_type": lambda _: "must be an object",
    "model_type": lambda _: "must be an object",
    "model_attributes_type": lambda _: "must be an object",
    "json_invalid": lambda _: "this is not JSON",
    "value_error": lambda given: str(given["error"]),
}


def sentence(error: Mapping[str, Any]) -> str:
    """One of `ValidationError.errors()`."""
    where = ".".join(str(part) for part in error["loc"])
    known = _SAID.get(error["type"])
    said = known(error.get("ctx") or {}) if known is not None else str(error["msg"])
    return f"{where}: {said.rstrip('.')}."


def _at_least(least: int, what: str) -> str:
    return "must not be empty" if least == 1 else f"must have at least {least} {what}s"


def _plain(expected: str) -> str:
    """Pydantic writes values as Python would: 'a', or <Kind.A: 'a'>."""
    return _MEMBER.sub(r"\1", expected.replace("'", ""))
