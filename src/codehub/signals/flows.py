"""Logins that went to an OpenID provider and are not back yet: kept ten minutes, taken once. Lost ones begin anew."""

from codehub.signals.one_time import OneTimeValues

SECONDS = 600


class RedisFlows(OneTimeValues):
    """By a key that only the browser's cookie leads to."""

    prefix = "codehub:oidc:"
    seconds = SECONDS
