"""Settings of accounts: the first administrator, how long sessions last, who may speak for a client, and OIDC."""

import re
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, SecretStr, model_validator

from codehub.config.values import Group, Interval, Networks, Words

_ORIGIN = re.compile(r"https?://[A-Za-z0-9.-]+(:[0-9]{1,5})?|https?://\[[0-9A-Fa-f:.]+\](:[0-9]{1,5})?")
_HOST = re.compile(r"[a-z0-9]([a-z0-9.-]{0,180}[a-z0-9])?(:[0-9]{1,5})?")
_NAME = re.compile(r"(\*\.)?[A-Za-z0-9_]([A-Za-z0-9_.-]{0,250}[A-Za-z0-9_])?")
_ISSUER = re.compile(r"https?://[^\s?#@]+")
_LOCAL_ISSUER = re.compile(r"http://(localhost|127\.0\.0\.1|\[::1\])([:/]|$)")


def _origin(text: str) -> str:
    text = text.removesuffix("/")
    if not _ORIGIN.fullmatch(text):
        raise ValueError("must be https://host or http://host:port, without a path")
    return text.lower()


def _workspace_host(text: str) -> str:
    text = text.lower().removeprefix("*.")
    if not _HOST.fullmatch(text):
        raise ValueError("must be a host, as in ws.example.com, or none")
    return text


def _names(words: tuple[str, ...]) -> tuple[str, ...]:
    for word in words:
        if not _NAME.fullmatch(word):
            raise ValueError("must be names without a port, as in hub.example.com or *.corp.example")
    return tuple(word.lower() for word in words)


def _issuer(text: str) -> str:
    if not _ISSUER.fullmatch(text):
        raise ValueError("must be the provider's URL, as in https://login.example.com/realm")
    if text.startswith("http://") and not _LOCAL_ISSUER.match(text):
        raise ValueError("must begin with https://: over plain HTTP anybody on the way could log in as anyone")
    return text


def _password(secret: SecretStr) -> SecretStr:
    if len(secret.get_secret_value()) < 10:
        raise ValueError("must have at least 10 characters")
    return secret


class AccountConfig(Group):
    """Who may log in, for how long, and from where a client is believed to come."""

    admin_password: Annotated[SecretStr, AfterValidator(_password)] | None = Field(
        None,
        validation_alias="CODEHUB_ADMIN_PASSWORD",
        description="Password of the first administrator, `admin`, read when there is no user yet. "
        "Default: a generated one, shown once at a terminal, else in the file `first-password`.",
    )
    public_url: Annotated[str, AfterValidator(_origin)] | None = Field(
        None,
        validation_alias="CODEHUB_PUBLIC_URL",
        description="Where browsers find CodeHub, as `https://codehub.example.com`. Default: what the request says.",
    )
    workspace_host: Annotated[str, AfterValidator(_workspace_host)] | None = Field(
        None,
        validation_alias="CODEHUB_WORKSPACE_HOST",
        description="Host below which each workspace has an origin of its own, as `ws.example.com` for "
        "`{id}.ws.example.com`; needs a wildcard DNS entry and CODEHUB_PUBLIC_URL. `none`: workspaces open below "
        "`/w/{id}/` everywhere. Default: `{id}.localhost` where CodeHub is opened as localhost.",
    )
    allowed_hosts: Annotated[Words, AfterValidator(_names)] = Field(
        (),
        validation_alias="CODEHUB_ALLOWED_HOSTS",
        description="More names, separated by commas, that CodeHub answers at, as `hub.lan,*.corp.example`. It answers "
        "in any case as localhost, at addresses, as this machine's own name without a domain, and as "
        "CODEHUB_PUBLIC_URL says; names with a domain, `.local` too, are to be listed.",
    )
    path_mode: Literal["guarded", "trusted"] = Field(
        "guarded",
        validation_alias="CODEHUB_PATH_MODE",
        description="Where a workspace has no origin of its own (path mode), its pages can use the login of whoever "
        "opens it. `guarded`: administrators cannot open other people's workspaces there, and pages are confined "
        "by a policy. `trusted`: neither.",
    )
    trusted_proxies: Networks = Field(
        (),
        validation_alias="CODEHUB_TRUSTED_PROXIES",
        description="Networks, separated by commas, of proxies whose `X-Forwarded-*` headers are believed.",
    )
    session_idle_seconds: Interval = Field(
        604800, validation_alias="SESSION_IDLE_SECONDS", description="Seconds without a request until a login ends."
    )
    session_absolute_seconds: Interval = Field(
        2592000, validation_alias="SESSION_ABSOLUTE_SECONDS", description="Seconds until a login ends in any case."
    )

    @model_validator(mode="after")
    def _has_a_way_back(self) -> Self:
        if self.workspace_host not in (None, "none") and self.public_url is None:
            raise ValueError("CODEHUB_WORKSPACE_HOST needs CODEHUB_PUBLIC_URL, where a workspace's host leads back to")
        return self


class OidcConfig(Group):
    """Logging in with an OpenID Connect provider, beside passwords."""

    issuer: Annotated[str, AfterValidator(_issuer)] | None = Field(
        None,
        validation_alias="OIDC_ISSUER",
        description="The provider's URL; `/.well-known/openid-configuration` is looked up under it. Default: no OIDC.",
    )
    client_id: str | None = Field(
        None, validation_alias="OIDC_CLIENT_ID", description="What the provider calls this installation."
    )
    client_secret: SecretStr | None = Field(
        None, validation_alias="OIDC_CLIENT_SECRET", description="The secret shared with it. Default: a public client."
    )
    scopes: str = Field(
        "openid profile",
        validation_alias="OIDC_SCOPES",
        pattern=r"^(.* )?openid( .*)?$",
        description="Scopes to ask for, separated by spaces; `openid` must be one.",
    )
    username_claim: str = Field(
        "preferred_username",
        validation_alias="OIDC_USERNAME_CLAIM",
        description="Claim that names a user at the first login.",
    )
    admin_claim: str | None = Field(
        None,
        validation_alias="OIDC_ADMIN_CLAIM",
        description="Claim that decides at every login who is an administrator; dots lead into objects. "
        "Default: roles are given in CodeHub.",
    )
    admin_value: str | None = Field(
        None,
        validation_alias="OIDC_ADMIN_VALUE",
        description="Value of that claim, or a member of it when it is a list, that makes an administrator.",
    )

    session_seconds: Interval = Field(
        43200,
        validation_alias="OIDC_SESSION_SECONDS",
        description="Seconds until a login with the provider ends in any case: for so long at most somebody whom the "
        "provider no longer lets in is still here. SESSION_ABSOLUTE_SECONDS counts, too.",
    )

    @model_validator(mode="after")
    def _belongs_together(self) -> Self:
        if (self.issuer is None) != (self.client_id is None):
            raise ValueError("OIDC_ISSUER and OIDC_CLIENT_ID must be set together")
        if (self.admin_claim is None) != (self.admin_value is None):
            raise ValueError("OIDC_ADMIN_CLAIM and OIDC_ADMIN_VALUE must be set together")
        return self
