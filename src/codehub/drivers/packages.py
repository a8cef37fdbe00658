"""What package managers in workspaces are told: which index to ask, and which certificates to trust. No secrets."""

import configparser
import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

_MACHINE_SETTINGS = Path("/etc/pip.conf")
_CERTIFICATES = (Path("/etc/ssl/certs/ca-certificates.crt"), Path("/etc/pki/tls/certs/ca-bundle.crt"))
_PORTS = {"https": 443, "http": 80}


def environment(index: str | None) -> Mapping[str, str]:
    """Of a workspace whose pip and uv use this index; without one, that of the package managers themselves.

    What pip downloads is not kept: it would be archived with the home.
    """
    told = {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_CACHE_DIR": "1"}
    if index is None:
        return told
    told |= {"PIP_INDEX_URL": index, "UV_DEFAULT_INDEX": index}
    url = urlsplit(index)
    if url.scheme == "http":
        told |= {"PIP_TRUSTED_HOST": url.netloc, "UV_INSECURE_HOST": url.netloc}
    return told


def address_of(index: str) -> str:
    """HOST:PORT."""
    url = urlsplit(index)
    return f"{url.hostname}:{url.port or _PORTS[url.scheme]}"


def machine_index() -> str | None:
    """What pip on this machine asks, unless that takes a password: a workspace may read all that it is given."""
    found = os.environ.get("PIP_INDEX_URL") or _configured()
    if not found:
        return None
    try:
        url = urlsplit(found)
        has_port = url.port is None or url.port > 0
    except ValueError:
        return None
    return found if url.scheme in _PORTS and url.hostname and has_port and "@" not in url.netloc else None


def _configured() -> str | None:
    parser = configparser.RawConfigParser()
    try:
        parser.read(_MACHINE_SETTINGS, encoding="utf-8")
        return parser.get("global", "index-url", fallback=None)
    except (configparser.Error, OSError, UnicodeDecodeError):
        return None


def certificates() -> Mapping[str, str]:
    """Programs with a list of their own (requests, Node.js) trust what this machine trusts, too."""
    found = next((str(path) for path in _CERTIFICATES if path.is_file()), None)
    names = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS")
    return dict.fromkeys(names, found) if found else {}
