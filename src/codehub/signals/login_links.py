"""One-time login links: kept ten minutes, taken once. `codehub login-link` makes a new one."""

from codehub.signals.one_time import OneTimeValues

SECONDS = 600


class RedisLoginLinks(OneTimeValues):
    """By the hash of the link's code."""

    prefix = "codehub:login-link:"
    seconds = SECONDS
