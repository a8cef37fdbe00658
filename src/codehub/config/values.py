"""What a group of settings is, and the kinds of values that settings have. A wrong value is told in a few words."""

import re
from ipaddress import IPv4Address, IPv4Network, ip_network
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, PlainValidator
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from codehub.model import ttl

LONGEST = 10 * 365 * 24 * 3600  # ten years: longer than anybody means, and safe in every calculation
_UNITS = {"": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_SIZE = re.compile(r"([0-9]{1,15}) ?(|KiB|MiB|GiB|TiB)")


class Group(BaseSettings):
    """Settings that belong together. A field's validation alias is the name of its environment variable."""

    model_config = SettingsConfigDict(
        frozen=True, extra="ignore", case_sensitive=True, env_ignore_empty=True, populate_by_name=True
    )

    @classmethod
    def variables(cls) -> dict[str, FieldInfo]:
        """The environment variables of this group."""
        return {str(field.validation_alias): field for field in cls.model_fields.values()}


class Size(int):
    """A number of bytes, written as people write it."""

    def __str__(self) -> str:
        unit = max((name for name in _UNITS if self % _UNITS[name] == 0), key=_UNITS.__getitem__) if self else ""
        return f"{int(self) // _UNITS[unit]}{unit}"


def _ttl(seconds: int) -> int:
    if not ttl.is_valid_ttl(seconds):
        raise ValueError(f"must be 0 (never) or at least {ttl.SHORTEST_SECONDS} seconds")
    return seconds


def _size(given: object) -> Size:
    found = _SIZE.fullmatch(str(given).strip())
    if found is None:
        raise ValueError("must be a number of bytes, or a number with KiB, MiB, GiB or TiB")
    return Size(int(found[1]) * _UNITS[found[2]])


def _words(given: object) -> object:
    return tuple(word.strip() for word in given.split(",") if word.strip()) if isinstance(given, str) else given


def _network(text: str) -> str:
    return str(ip_network(text))


def _network4(text: str) -> str:
    return str(IPv4Network(text))


def _address4(text: str) -> str:
    return str(IPv4Address(text))


def _no_repetition(words: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(words)) != len(words):
        raise ValueError("must not name anything twice")
    return words


Ttl = Annotated[int, Field(le=LONGEST), AfterValidator(_ttl)]
Seconds = Annotated[int, Field(ge=0, le=LONGEST)]
Interval = Annotated[float, Field(gt=0, le=LONGEST, allow_inf_nan=False)]
Rate = Annotated[float, Field(gt=0, le=1_000_000, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1, le=1_000_000)]
Bytes = Annotated[Size, PlainValidator(_size)]
Words = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_words), AfterValidator(_no_repetition)]
Networks = Annotated[tuple[Annotated[str, AfterValidator(_network)], ...], NoDecode, BeforeValidator(_words)]
Networks4 = Annotated[tuple[Annotated[str, AfterValidator(_network4)], ...], NoDecode, BeforeValidator(_words)]
Addresses4 = Annotated[tuple[Annotated[str, AfterValidator(_address4)], ...], NoDecode, BeforeValidator(_words)]
