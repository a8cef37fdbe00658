"""TLS by certificate files; a certificate that was renewed is taken up without a restart."""

import ssl
from pathlib import Path

import structlog

from codehub.errors import StartError

log = structlog.get_logger(__name__)


class Certificate:
    """The certificate of the public port. Connections that are open keep the one they began with."""

    def __init__(self, chain: Path, key: Path) -> None:
        """StartError when the files cannot be used."""
        self._chain, self._key = chain, key
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self.context.set_alpn_protocols(["http/1.1"])
        try:
            self._seen = self._stamp()
            self._load(self.context)
        except (OSError, ValueError) as error:
            raise StartError(
                f"The certificate {chain} with the key {key} cannot be used: {_reason(error)}.",
                "Let CODEHUB_TLS_CERT name the certificate with its chain, and CODEHUB_TLS_KEY its key without a "
                "password, both PEM.",
            ) from error

    def refresh(self) -> None:
        """Take up what changed; files that cannot be used (yet) change nothing."""
        try:
            stamp = self._stamp()
            if stamp == self._seen:
                return
            self._seen = stamp
            self._load(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))  # a try: half a renewal must not be taken up
            self._load(self.context)
        except (OSError, ValueError) as error:
            log.warning("a changed certificate cannot be used", certificate=str(self._chain), reason=_reason(error))
        else:
            log.info("a changed certificate was taken up", certificate=str(self._chain))

    def _load(self, context: ssl.SSLContext) -> None:
        context.load_cert_chain(self._chain, self._key, password=_no_password)

    def _stamp(self) -> tuple[int, int]:
        return self._chain.stat().st_mtime_ns, self._key.stat().st_mtime_ns


def _no_password() -> str:
    raise ValueError("the key has a password")


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return (error.reason or "it is not PEM").replace("_", " ").lower()
    return (error.strerror or str(error)).lower() if isinstance(error, OSError) else str(error)
