"""Which cluster, and who we are there: the service account of our own pod, or a kubeconfig.

Understood of a kubeconfig: certificates and keys (in files or in it), tokens (in it or in a file), programs that give
tokens (`exec`). Not understood, and said so: passwords, `auth-provider`, certificates that programs give, `proxy-url`.
Tokens are read again when they are about to end, so that one that is renewed while we run is used.
"""

import asyncio
import base64
import binascii
import json
import os
import ssl
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml

from codehub.errors import SettingsError, Unreachable

POD = Path("/var/run/secrets/kubernetes.io/serviceaccount")
TOKEN_SECONDS = 60.0  # how long a token that was read is used before it is read again
_EXEC_SECONDS = 30.0
_EXEC_SPARE_SECONDS = 60.0

Token = Callable[[], Awaitable[str | None]]
Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Access:
    """How to reach one cluster."""

    server: str
    tls: ssl.SSLContext
    token: Token
    namespace: str | None = None
    own_namespace: str | None = None  # that of the pod which we are, if it is one of this cluster
    server_name: str | None = None  # in its certificate, where that is another one


def find_access(kubeconfig: Path | None, context: str | None) -> Access:
    """The kubeconfig that is named; else our own pod's account; else $KUBECONFIG or ~/.kube/config. SettingsError."""
    if kubeconfig is None and context is None and (POD / "token").exists():
        return pod_access(POD, os.environ)
    path = kubeconfig or Path(os.environ.get("KUBECONFIG", "").split(":")[0] or "~/.kube/config").expanduser()
    try:
        return config_access(path, context)
    except SettingsError as error:
        raise SettingsError(f"K8S_KUBECONFIG={path}: {error}") from None


def pod_access(folder: Path, environment: Mapping[str, str]) -> Access:
    """Inside a cluster."""
    host, port = environment.get("KUBERNETES_SERVICE_HOST"), environment.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise SettingsError("KUBERNETES_SERVICE_HOST is not set, though this is a pod with a service account.")
    file = folder / "namespace"
    namespace = file.read_text().strip() if file.exists() else None
    return Access(
        server=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
        tls=_trusting(cafile=str(folder / "ca.crt")),
        token=_from_file(folder / "token"),
        namespace=namespace,
        own_namespace=namespace,
    )


def config_access(path: Path, wanted: str | None) -> Access:
    """One context of a kubeconfig."""
    try:
        config = yaml.safe_load(path.read_text())
        name = wanted or config["current-context"]
        context = _named(config, "contexts", "context", name)
        cluster = _named(config, "clusters", "cluster", context["cluster"])
        user = _named(config, "users", "user", context["user"])
        server = str(cluster["server"])
    except OSError as error:
        raise SettingsError(f"cannot be read: {error.strerror}.") from None
    except (yaml.YAMLError, KeyError, TypeError, AttributeError) as error:
        raise SettingsError(f"is not a complete kubeconfig ({type(error).__name__}: {error}).") from None
    for part, key in ((cluster, "proxy-url"), (user, "auth-provider"), (user, "username")):
        if part.get(key):
            raise SettingsError(f"{key} is not supported; certificates, tokens and exec are.")
    return Access(
        server=server.rstrip("/"),
        tls=_tls(cluster, user, path.parent),
        token=_token(user, path.parent),
        namespace=context.get("namespace"),
        server_name=cluster.get("tls-server-name"),
    )


def _named(config: Json, kind: str, part: str, name: str) -> Json:
    for entry in config.get(kind) or ():
        if entry["name"] == name:
            found: Json = entry.get(part) or {}
            return found
    raise KeyError(f"no {part} {name!r}")


def _trusting(*, cafile: str | None = None, cadata: str | None = None) -> ssl.SSLContext:
    """Not as strict as Python since 3.13: clusters' own authorities often lack extensions that kubectl does without."""
    context = ssl.create_default_context(cafile=cafile, cadata=cadata)
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


def _tls(cluster: Json, user: Json, folder: Path) -> ssl.SSLContext:
    authority = _content(cluster, "certificate-authority", folder)
    try:
        context = _trusting(cadata=authority.decode() if authority else None)
        if cluster.get("insecure-skip-tls-verify"):
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        certificate, key = _content(user, "client-certificate", folder), _content(user, "client-key", folder)
        if certificate and key:
            with tempfile.NamedTemporaryFile(mode="wb") as file:  # ssl takes files only; this one is ours alone
                file.write(certificate + b"\n" + key)
                file.flush()
                context.load_cert_chain(file.name)
    except (ssl.SSLError, ValueError) as error:
        raise SettingsError(f"has certificates that cannot be used: {error}.") from None
    return context


def _content(part: Json, key: str, folder: Path) -> bytes | None:
    """What `key-data` holds, or the file that `key` names."""
    try:
        if data := part.get(f"{key}-data"):
            return base64.b64decode(data, validate=True)
        return (folder / str(part[key])).read_bytes() if part.get(key) else None
    except (OSError, binascii.Error, TypeError) as error:
        raise SettingsError(f"{key} cannot be read: {error}.") from None


def _token(user: Json, folder: Path) -> Token:
    if user.get("token"):
        fixed = str(user["token"])

        async def token() -> str | None:
            return fixed

        return token
    if user.get("tokenFile"):
        return _from_file(folder / str(user["tokenFile"]))
    if user.get("exec"):
        return _Program(user["exec"], folder).token

    async def none() -> str | None:
        return None

    return none


def _from_file(path: Path) -> Token:
    read_at, last = float("-inf"), ""

    async def token() -> str | None:
        nonlocal read_at, last
        if time.monotonic() - read_at > TOKEN_SECONDS:
            try:
                last = (await asyncio.to_thread(path.read_text)).strip()
            except OSError as error:
                raise Unreachable(f"The cluster's token {path} cannot be read: {error.strerror}.") from error
            read_at = time.monotonic()
        return last

    return token


class _Program:
    """`exec`: a program that prints an ExecCredential. One run at a time; what it gave is used until it ends."""

    def __init__(self, given: Json, folder: Path) -> None:
        self._given = given
        self._folder = folder
        self._lock = asyncio.Lock()
        self._until = float("-inf")
        self._last: str | None = None

    async def token(self) -> str | None:
        async with self._lock:
            if time.time() >= self._until:
                self._last, self._until = await self._run()
            return self._last

    async def _run(self) -> tuple[str, float]:
        command = str(self._given.get("command", ""))
        more = {str(entry["name"]): str(entry["value"]) for entry in self._given.get("env") or ()}
        version = self._given.get("apiVersion", "client.authentication.k8s.io/v1")
        asked = json.dumps({"apiVersion": version, "kind": "ExecCredential", "spec": {"interactive": False}})
        try:
            process = await asyncio.create_subprocess_exec(
                command,
                *map(str, self._given.get("args") or ()),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                cwd=self._folder,
                env={**os.environ, **more, "KUBERNETES_EXEC_INFO": asked},
            )
            try:
                async with asyncio.timeout(_EXEC_SECONDS):
                    printed, _ = await process.communicate()
            finally:
                if process.returncode is None:
                    with suppress(ProcessLookupError):
                        process.kill()
            status = json.loads(printed)["status"]
            until = status.get("expirationTimestamp")
            ends = datetime.fromisoformat(until).timestamp() - _EXEC_SPARE_SECONDS if until else float("inf")
            return str(status["token"]), ends
        except (OSError, ValueError, KeyError, TypeError) as error:  # TimeoutError is an OSError
            why = str(error) or type(error).__name__
            raise Unreachable(f"The kubeconfig's program {command} gave no token: {why}.") from error
