"""An OpenID provider: where its endpoints are, what its keys are, and whether an ID token is one of its own.

Nothing that it says is believed before its signature was checked with its published keys; symmetric algorithms and
`none` are not accepted at all. Every request has a timeout. What it published is asked for once for all who wait,
and after a failure not again for a moment: anybody can make us look. What it is asked and answers is never logged.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit

import httpx
import structlog
from authlib.oauth2.rfc6749.parameters import prepare_grant_uri  # type: ignore[import-untyped]
from authlib.oauth2.rfc7636 import create_s256_code_challenge  # type: ignore[import-untyped]
from authlib.oidc.core import CodeIDToken  # type: ignore[import-untyped]
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

from codehub.config import OidcConfig
from codehub.errors import NotLoggedIn, Unavailable
from codehub.services.sharing import Shared

log = structlog.get_logger(__name__)

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "Ed25519", "EdDSA")
_TIMEOUT_SECONDS = 10.0
_FRESH_SECONDS = 3600.0  # how long what was published is taken for granted
KEYS_AGAIN_SECONDS = 30.0  # an unknown key makes us look again, but not for every forged token
FAILED_SECONDS = 5.0  # how long nobody asks again
LEEWAY_SECONDS = 60
LONGEST_ID = 255  # of a subject or a session


@dataclass(frozen=True, slots=True)
class Tokens:
    """What a code was exchanged for."""

    id_token: str
    access_token: str | None


class Provider:
    """One per process: it remembers what the provider published."""

    def __init__(
        self, config: OidcConfig, *, keys_again: float = KEYS_AGAIN_SECONDS, failed: float = FAILED_SECONDS
    ) -> None:
        self.config = config
        self._keys_again = keys_again
        self._failed = failed
        self._metadata: dict[str, Any] = {}
        self._metadata_at = -_FRESH_SECONDS
        self._keys: KeySet | None = None
        self._keys_at = -_FRESH_SECONDS
        self._shared = Shared()

    @property
    def is_configured(self) -> bool:
        return self.config.issuer is not None

    async def authorization_url(
        self, *, redirect_uri: str, state: str, nonce: str, verifier: str, is_fresh: bool = False
    ) -> str:
        """Where to send the browser; a fresh login asks people who they are although the provider knows them."""
        metadata = await self._published()
        more = {"prompt": "login", "max_age": "0"} if is_fresh else {}
        url: str = prepare_grant_uri(
            metadata["authorization_endpoint"],
            client_id=self.config.client_id,
            response_type="code",
            redirect_uri=redirect_uri,
            scope=self.config.scopes,
            state=state,
            nonce=nonce,
            code_challenge=create_s256_code_challenge(verifier),
            code_challenge_method="S256",
            **more,
        )
        return url

    async def issuer(self) -> str:
        """As the provider writes it."""
        return str((await self._published())["issuer"])

    async def exchange(self, code: str, *, redirect_uri: str, verifier: str) -> Tokens:
        """The tokens that a code stands for. Raises NotLoggedIn when the provider does not accept it."""
        metadata = await self._published()
        body = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect_uri,
            "code_verifier": verifier,
        }
        auth = self._authenticate(metadata, body)
        answer = await self._send("POST", metadata["token_endpoint"], data=body, auth=auth)
        if answer.status_code != httpx.codes.OK:
            log.warning("the OpenID provider refused a code", status=answer.status_code)
            raise failed()
        tokens = _object(answer)
        if not isinstance(tokens.get("id_token"), str):
            raise failed()
        access = tokens.get("access_token")
        return Tokens(tokens["id_token"], access if isinstance(access, str) else None)

    async def claims(self, tokens: Tokens, nonce: str) -> Mapping[str, Any]:
        """What a valid ID token says about whom. Raises NotLoggedIn for any other."""
        token = await self.verified(tokens.id_token)
        metadata = await self._published()
        claims = CodeIDToken(
            token.claims,
            token.header,
            options={
                "iss": {"essential": True, "value": metadata["issuer"]},
                "aud": {"essential": True, "value": self.config.client_id},
                "sub": {"essential": True},
                "nonce": {"essential": True, "value": nonce},
            },
            params={"nonce": nonce, "client_id": self.config.client_id, "access_token": tokens.access_token},
        )
        try:
            claims.validate(leeway=LEEWAY_SECONDS)
        except JoseError as error:
            log.warning("an ID token is not valid", cause=type(error).__name__)
            raise failed() from error
        if not isinstance(token.claims["sub"], str) or not 0 < len(token.claims["sub"]) <= LONGEST_ID:
            raise failed()
        return token.claims

    async def more_claims(self, tokens: Tokens, claims: Mapping[str, Any]) -> Mapping[str, Any]:
        """… with what only the userinfo endpoint says, as long as it speaks of the same subject."""
        endpoint = (await self._published()).get("userinfo_endpoint")
        if endpoint is None or tokens.access_token is None:
            return claims
        answer = await self._send("GET", endpoint, headers={"Authorization": f"Bearer {tokens.access_token}"})
        if answer.status_code != httpx.codes.OK:
            return claims
        more = _object(answer)
        if more.get("sub") != claims["sub"]:
            raise failed()
        return {**more, **claims}

    async def verified(self, id_token: str) -> jwt.Token:
        """A token that the provider signed, whatever it says. Raises NotLoggedIn for any other."""
        keys = await self._published_keys()
        try:
            return _decode(id_token, keys)
        except NotLoggedIn:
            again = await self._published_keys(older_than=self._keys_again)
            if again is keys:
                raise
        return _decode(id_token, again)  # signed with a key that was published since

    def _authenticate(self, metadata: Mapping[str, Any], body: dict[str, str]) -> httpx.Auth | None:
        """By whichever way the provider accepts; in the header unless it wants it in the body."""
        client_id = self.config.client_id or ""
        if self.config.client_secret is None:
            body["client_id"] = client_id
            return None
        secret = self.config.client_secret.get_secret_value()
        methods = metadata.get("token_endpoint_auth_methods_supported") or ["client_secret_basic"]
        if "client_secret_basic" not in methods and "client_secret_post" in methods:
            body.update(client_id=client_id, client_secret=secret)
            return None
        return httpx.BasicAuth(quote(client_id, safe=""), quote(secret, safe=""))

    async def _published(self) -> dict[str, Any]:
        if time.monotonic() - self._metadata_at < _FRESH_SECONDS:
            return self._metadata
        return await self._shared.get(("metadata", self._metadata_at), self._failed, self._read_metadata)

    async def _read_metadata(self) -> dict[str, Any]:
        issuer = (self.config.issuer or "").rstrip("/")
        answer = await self._send("GET", f"{issuer}/.well-known/openid-configuration")
        metadata = _object(answer) if answer.status_code == httpx.codes.OK else {}
        if str(metadata.get("issuer", "")).rstrip("/") != issuer:
            raise Unavailable("The OpenID provider does not describe itself as OIDC_ISSUER says.", "Correct it.")
        scheme = urlsplit(issuer).scheme
        for name in ("authorization_endpoint", "token_endpoint", "jwks_uri", "userinfo_endpoint"):
            if name == "userinfo_endpoint" and name not in metadata:
                continue  # the one that a provider may do without
            if urlsplit(str(metadata.get(name, ""))).scheme not in ("https", scheme):
                raise Unavailable(f"The OpenID provider has no usable {name}.", "Check OIDC_ISSUER.")
        self._metadata, self._metadata_at = metadata, time.monotonic()
        return metadata

    async def _published_keys(self, older_than: float = _FRESH_SECONDS) -> KeySet:
        if self._keys is not None and time.monotonic() - self._keys_at < older_than:
            return self._keys
        return await self._shared.get(("keys", self._keys_at), self._failed, self._read_keys)

    async def _read_keys(self) -> KeySet:
        answer = await self._send("GET", (await self._published())["jwks_uri"])
        try:
            self._keys = KeySet.import_key_set(_object(answer))  # type: ignore[arg-type]  # it checks what it is given
        except (JoseError, ValueError, KeyError, TypeError) as error:
            raise Unavailable("The OpenID provider's keys cannot be read.", "Check the provider.") from error
        self._keys_at = time.monotonic()
        return self._keys

    async def _send(self, method: str, url: str, **given: Any) -> httpx.Response:  # noqa: ANN401 - httpx's
        try:
            async with httpx.AsyncClient(timeout=_TIMEOUT_SECONDS) as client:
                return await client.request(method, url, **given)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            log.warning("the OpenID provider does not answer", cause=type(error).__name__)
            raise Unavailable(
                "The OpenID provider does not answer.", "Try again in a moment, or log in with a password."
            ) from error


def failed() -> NotLoggedIn:
    """What the browser is told, whatever it was; the log says more."""
    return NotLoggedIn("The login with the OpenID provider did not succeed.", "Try again.", code="oidc_failed")


def _decode(id_token: str, keys: KeySet) -> jwt.Token:
    try:
        return jwt.decode(id_token, keys, algorithms=list(ALGORITHMS))
    except (JoseError, ValueError, TypeError, LookupError, AttributeError) as error:  # a header can have any shape
        log.warning("a token is not the OpenID provider's", cause=type(error).__name__)
        raise failed() from error


def _object(answer: httpx.Response) -> dict[str, Any]:
    try:
        found = answer.json()
    except ValueError as error:
        raise Unavailable("The OpenID provider's answer cannot be read.", "Check OIDC_ISSUER.") from error
    return found if isinstance(found, dict) else {}
