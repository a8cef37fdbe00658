"""What an installer is told of the environment of whoever started CodeHub: how to reach packages, and nothing else.

That environment may hold the database's address, keys of the archive store, an administrator's password. Installers
run programs of others, so they are given what is named here, and a home of their own.
"""

import os
import pwd
import re
from collections.abc import Mapping
from pathlib import Path

# In any case, as both are usual: proxies.
_PROXIES = r"(?i:(?:https?|all|no)_proxy)"
_CERTIFICATES = r"SSL_CERT_(?:FILE|DIR)|NODE_EXTRA_CA_CERTS|REQUESTS_CA_BUNDLE|CURL_CA_BUNDLE"
_NPM = (
    r"(?i:npm_config_(?:registry|@.+:registry|//.+|_auth|_authtoken|ca|cafile|cert|key|strict[-_]ssl|(?:https?[-_])?proxy"
    r"|noproxy|replace[-_]registry[-_]host|fetch[-_].+|maxsockets))"
)
_PIP = r"PIP_(?:INDEX_URL|EXTRA_INDEX_URL|FIND_LINKS|TRUSTED_HOST|CERT|CLIENT_CERT|DEFAULT_TIMEOUT)"
_UV = (
    r"UV_(?:INDEX|DEFAULT_INDEX|INDEX_URL|EXTRA_INDEX_URL|INDEX_.+_(?:USERNAME|PASSWORD)|FIND_LINKS|INSECURE_HOST|OFFLINE"
    r"|HTTP_TIMEOUT|HTTP_RETRIES|CONCURRENT_[A-Z]+|CACHE_DIR|NO_CACHE|CONFIG_FILE|NO_CONFIG|LINK_MODE)"
)
_TOLD = re.compile(f"TMPDIR|{_PROXIES}|{_CERTIFICATES}|{_NPM}|{_PIP}|{_UV}")
_BASE = {"LANG": "C.UTF-8"}


def base_environment(given: Mapping[str, str], home: Path) -> dict[str, str]:
    """For what needs no packages."""
    return {**_BASE, "PATH": given.get("PATH", os.defpath), "HOME": str(home)}


def fetching_environment(given: Mapping[str, str], home: Path) -> dict[str, str]:
    """For what downloads packages, and runs nothing of them: it may hold an index's password."""
    return {**{name: value for name, value in given.items() if _TOLD.fullmatch(name)}, **base_environment(given, home)}


def uv_files(given: Mapping[str, str]) -> dict[str, str]:
    """Where uv finds its cache and settings although its home is another: those of whoever started CodeHub.

    What the environment names by itself, or has switched off, is left to that. A service may have no home.
    """
    home = _home_of(given)
    cache = Path(given.get("XDG_CACHE_HOME") or home / ".cache") / "uv"
    settings = Path(given.get("XDG_CONFIG_HOME") or home / ".config") / "uv/uv.toml"
    logins = Path(given.get("NETRC") or home / ".netrc")
    found = {"UV_CACHE_DIR": cache} if _can_be_made(cache) else {}
    if settings.is_file() and "UV_NO_CONFIG" not in given:
        found["UV_CONFIG_FILE"] = settings
    if logins.is_file():
        found["NETRC"] = logins
    return {name: str(path) for name, path in found.items() if name == "NETRC" or name not in given}


def npm_settings(given: Mapping[str, str]) -> Path:
    """The file that names registries and logins of whoever started CodeHub."""
    named = next((value for name, value in given.items() if name.lower() == "npm_config_userconfig"), None)
    return Path(named or _home_of(given) / ".npmrc")


def _home_of(given: Mapping[str, str]) -> Path:
    """As the machine knows it, where a service manager names none."""
    if named := given.get("HOME"):
        return Path(named)
    try:
        return Path(pwd.getpwuid(os.geteuid()).pw_dir)
    except KeyError:  # a container's user needs no entry
        return Path("/nonexistent")


def _can_be_made(folder: Path) -> bool:
    """Whether we may write there, or make it."""
    there = next(each for each in (folder, *folder.parents) if os.access(each, os.F_OK))
    return os.access(there, os.W_OK | os.X_OK)
