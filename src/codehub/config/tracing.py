"""Traces: off unless a collector is named, by the names that OpenTelemetry gives its settings everywhere."""

import re
from typing import Annotated
from urllib.parse import unquote

from pydantic import AfterValidator, Field, SecretStr

from codehub.config.values import Group

_URL = re.compile(r"https?://[^\s/?#@]+(/[^\s?#]*)?")


def _collector(text: str) -> str:
    if not _URL.fullmatch(text):
        raise ValueError("must be http://host:port or https://host, perhaps with a path")
    return text


def _fields(secret: SecretStr) -> SecretStr:
    for pair in filter(None, secret.get_secret_value().split(",")):
        name, equals, value = pair.partition("=")
        if not equals or not re.fullmatch(r"[A-Za-z0-9_-]+", name.strip()) or not unquote(value).isprintable():
            raise ValueError("must be name=value pairs, separated by commas")
    return secret


class TracingConfig(Group):
    """Traces for an OpenTelemetry collector (OTLP over HTTP, JSON)."""

    endpoint: Annotated[str, AfterValidator(_collector)] | None = Field(
        None,
        validation_alias="OTEL_EXPORTER_OTLP_ENDPOINT",
        description="Collector that gets traces, as `http://collector:4318`. Default: none, and nothing is traced.",
    )
    headers: Annotated[SecretStr, AfterValidator(_fields)] = Field(
        SecretStr(""),
        validation_alias="OTEL_EXPORTER_OTLP_HEADERS",
        description="Header fields for it, as `name=value,name=value`.",
    )
    service_name: str = Field(
        "codehub", validation_alias="OTEL_SERVICE_NAME", description="What traces call this installation."
    )

    @property
    def header_fields(self) -> dict[str, str]:
        pairs = filter(None, self.headers.get_secret_value().split(","))
        return {name.strip(): unquote(value) for name, _, value in (pair.partition("=") for pair in pairs)}
