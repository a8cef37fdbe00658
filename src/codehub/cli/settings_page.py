"""The settings as a table for people and as the documentation page, both made from config/."""

from collections.abc import Iterator
from inspect import getdoc

from pydantic import SecretStr
from pydantic.fields import FieldInfo

from codehub.config import Group, Settings, group_types

_HEADER = """# Settings

CodeHub is configured by environment variables. They are read once at start; a wrong value, or a `CODEHUB_…` name that
does not exist, stops the start with one line per mistake. Those that are secrets may be in files of a folder instead
(`CODEHUB_SECRETS_DIR`). This page is made from the code by `make docs`.
"""


def markdown() -> str:
    """docs/settings.md."""
    parts = [_HEADER]
    for group in group_types().values():
        rows = "".join(
            f"| `{name}` | {_default(field)} | {field.description} |\n" for name, field in group.variables().items()
        )
        parts.append(
            f"## {group.__name__}\n\n{getdoc(group)}\n\n| variable | default | meaning |\n|---|---|---|\n{rows}"
        )
    return "\n".join(parts)


def table(settings: Settings) -> str:
    """Every setting and its value, one per line."""
    rows = [(alias, _shown(value)) for alias, value in _values(settings)]
    width = max(len(alias) for alias, _ in rows)
    return "".join(f"{alias:<{width}}  {shown}\n" for alias, shown in rows)


def as_dict(settings: Settings) -> dict[str, str]:
    """Every setting and its value, as they are shown."""
    return {alias: _shown(value) for alias, value in _values(settings)}


def _values(settings: Settings) -> Iterator[tuple[str, object]]:
    for name in group_types():
        group: Group = getattr(settings, name)
        for field_name, variable in zip(type(group).model_fields, group.variables(), strict=True):
            yield variable, getattr(group, field_name)


def _shown(value: object) -> str:
    if value in (None, ()):
        return "(default)"
    return "(set)" if isinstance(value, SecretStr) else _written(value)


def _default(field: FieldInfo) -> str:
    return "" if field.default in (None, ()) else f"`{_written(field.default)}`"


def _written(value: object) -> str:
    """As it would be given in the environment."""
    match value:
        case bool():
            return str(value).lower()
        case tuple():
            return ",".join(map(str, value))
    return str(value)
