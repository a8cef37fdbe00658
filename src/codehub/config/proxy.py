"""Settings of the proxy where it is a process of its own (`codehub proxy`)."""

import re
from typing import Annotated

from pydantic import AfterValidator, Field

from codehub.config.values import Group, Words

_API = re.compile(r"http://([A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\]):[0-9]{1,5}/?|unix:/[^\s,]+")


def _apis(urls: tuple[str, ...]) -> tuple[str, ...]:
    for url in urls:
        if not _API.fullmatch(url):
            raise ValueError("must be http://host:port or unix:/path, several separated by commas")
    return tuple(url.removeprefix("http://").removesuffix("/") for url in urls)


class ProxyConfig(Group):
    """Where the proxy finds the API."""

    api: Annotated[Words, AfterValidator(_apis)] = Field(
        (),
        validation_alias="CODEHUB_API_URL",
        description="Where `codehub proxy` finds the API processes, as `http://host:port` or `unix:/path`, separated "
        "by commas. These must trust it (CODEHUB_TRUSTED_PROXIES) unless they are reached over a unix socket.",
    )
