"""Settings of accounts: what cannot work, or would not be safe, is said at the start."""

import pytest

from codehub.config import Settings
from codehub.errors import SettingsError


@pytest.mark.parametrize(
    ("settings", "mistake"),
    [
        ({"CODEHUB_ADMIN_PASSWORD": "short"}, "CODEHUB_ADMIN_PASSWORD: must have at least 10 characters."),
        ({"CODEHUB_PUBLIC_URL": "codehub.example.com"}, "must be https://host or http://host:port, without a path."),
        ({"CODEHUB_PUBLIC_URL": "https://example.com/codehub"}, "without a path."),
        ({"CODEHUB_TRUSTED_PROXIES": "everybody"}, "CODEHUB_TRUSTED_PROXIES"),
        ({"SESSION_IDLE_SECONDS": "0"}, "SESSION_IDLE_SECONDS"),
        ({"OIDC_ISSUER": "https://login.example.com"}, "OIDC_ISSUER and OIDC_CLIENT_ID must be set together."),
        ({"OIDC_CLIENT_ID": "x"}, "OIDC_ISSUER and OIDC_CLIENT_ID must be set together."),
        ({"OIDC_ISSUER": "http://login.example.com", "OIDC_CLIENT_ID": "x"}, "must begin with https://"),
        ({"OIDC_ISSUER": "http://localhost.example.com", "OIDC_CLIENT_ID": "x"}, "must begin with https://"),
        ({"OIDC_ADMIN_CLAIM": "groups"}, "OIDC_ADMIN_CLAIM and OIDC_ADMIN_VALUE must be set together."),
        ({"OIDC_SCOPES": "profile"}, "OIDC_SCOPES"),
    ],
)
def test_a_mistake_is_told(monkeypatch: pytest.MonkeyPatch, settings: dict[str, str], mistake: str) -> None:
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SettingsError) as raised:
        Settings.load()
    assert mistake in raised.value.message
    assert "short" not in raised.value.message


def test_what_is_right_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {
        "CODEHUB_PUBLIC_URL": "https://CodeHub.example.com:8443/",
        "CODEHUB_TRUSTED_PROXIES": "10.0.0.0/8, ::1/128",
        "OIDC_ISSUER": "http://localhost:9000/realm",
        "OIDC_CLIENT_ID": "x",
        "OIDC_SCOPES": "email openid",
    }
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    settings = Settings.load()
    assert settings.accounts.public_url == "https://codehub.example.com:8443"
    assert settings.accounts.trusted_proxies == ("10.0.0.0/8", "::1/128")
    assert settings.oidc.issuer == "http://localhost:9000/realm"
