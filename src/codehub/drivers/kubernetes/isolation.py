"""Puts the network policies in force, and finds out by trying whether the cluster enforces them.

Two small pods dial the API server: one that may, one that no policy lets dial anything. Enforced means that the first
got through and the second did not; that both did is the usual answer of a network without policies. Neither tells.
"""

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime
from enum import Enum
from urllib.parse import urlsplit

import structlog

from codehub.drivers.kubernetes import manifests as m
from codehub.drivers.kubernetes import policies as p
from codehub.drivers.kubernetes.api import CONFLICT, ApiError, Cluster
from codehub.drivers.kubernetes.explain import explain, refusal
from codehub.drivers.kubernetes.options import KubernetesOptions
from codehub.errors import ActionFailed, CodeHubError

log = structlog.get_logger()

_BELIEVED_SECONDS = 6 * 3600.0
_TRY_AGAIN_SECONDS = 600.0
_PROBE_SECONDS = 60.0
_LEFT_BEHIND_SECONDS = 300.0
_POLL_SECONDS = 0.5
_REACHED, _BLOCKED = 0, 3
# `open` succeeds with the first connection; `closed` is blocked with the first that fails: some networks take a moment
# to put the policies of a new pod in force.
_PROGRAM = f"""
import os, socket, sys, time
end, tries = (0, 5) if sys.argv[1] == "open" else ({_BLOCKED}, 8)
target = os.environ["KUBERNETES_SERVICE_HOST"], int(os.environ["KUBERNETES_SERVICE_PORT"])
for _ in range(tries):
    try:
        socket.create_connection(target, 2).close()
        result = {_REACHED}
    except OSError:
        result = {_BLOCKED}
    if result == end:
        break
    time.sleep(1)
sys.exit(result)
"""

StoreRules = Callable[[], Awaitable[list[p.Body]]]


class Enforced(Enum):
    """Whether the cluster's network enforces NetworkPolicies."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


class Isolation:
    """The policies of one installation. Whoever comes while it is being found out waits for the one answer."""

    def __init__(self, cluster: Cluster, options: KubernetesOptions, store_rules: StoreRules) -> None:
        self._cluster = cluster
        self._options = options
        self._store_rules = store_rules
        self._lock = asyncio.Lock()
        self._believed_until = float("-inf")
        self._enforced: Enforced | None = None
        self._applied = False

    async def ensure(self) -> None:
        """Before a workspace is made: the policies are there. Raises ActionFailed where they must hold and do not."""
        if self._options.require_isolation:
            await self._find_out()
            if self._enforced is not Enforced.YES:
                raise ActionFailed(self.sentences()[0].removeprefix("WARNING: "))
        elif not self._applied:
            await self._apply()

    async def put_back(self) -> None:
        """Every few minutes: policies that somebody removed are made again."""
        await self._apply()
        await self._find_out()

    def sentences(self) -> list[str]:
        """What separates workspaces, for people."""
        if self._enforced is None:
            return ["WARNING: whether the cluster's network keeps workspaces apart is not known yet."]
        if self._enforced is Enforced.YES:
            said = [
                "Network policies keep workspaces from each other, the control plane, the API server and metadata.",
                "Pods have no service-account token, no privileges and no capabilities.",
            ]
            if not p.dialled_from(self._options):
                said.append(
                    "WARNING: the proxy cannot reach workspaces: CodeHub is no pod of this cluster. Name in K8S_CALLERS"
                    " where it dials from, or in K8S_CONTROL_NAMESPACE where its pods are."
                )
            return said
        fact = (
            "the cluster's network does not enforce network policies"
            if self._enforced is Enforced.NO
            else "whether the cluster's network enforces network policies could not be found out"
        )
        advice = "Use a network that does (Calico, Cilium, Antrea, …), or accept it with K8S_REQUIRE_ISOLATION=false."
        return [f"WARNING: {fact}: workspaces may reach each other, the control plane and the API server. {advice}"]

    # -- how ---------------------------------------------------------------------------------------------------------

    async def _find_out(self) -> None:
        async with self._lock:
            if time.monotonic() < self._believed_until:
                return
            await self._apply()
            self._enforced = await self._probe()
            seconds = _BELIEVED_SECONDS if self._enforced is Enforced.YES else _TRY_AGAIN_SECONDS
            self._believed_until = time.monotonic() + seconds

    async def _apply(self) -> None:
        server = urlsplit(self._cluster.server).hostname or ""
        for policy in p.policies(self._options, server, await self._store_rules()):
            name = policy["metadata"]["name"]
            try:
                await self._cluster.create("networkpolicies", policy, group=p.GROUP)
            except ApiError as error:
                if error.status != CONFLICT:
                    raise ActionFailed(f"The network policy {name} is not made. {refusal(error.message)}") from error
                await self._replace(name, policy)
        self._applied = True

    async def _replace(self, name: str, policy: p.Body) -> None:
        try:
            await self._cluster.patch("networkpolicies", name, {"spec": policy["spec"]}, group=p.GROUP)
        except ApiError as error:
            raise ActionFailed(f"The network policy {name} is not changed. {refusal(error.message)}") from error

    async def _probe(self) -> Enforced:
        try:
            await self._sweep()
            opened, closed = await asyncio.gather(self._try("open", m.PROBE), self._try("closed", p.CLOSED_PROBE))
        except CodeHubError as error:
            log.warning("the network was not tried", why=str(error))
            return Enforced.UNKNOWN
        if opened != _REACHED or closed not in (_REACHED, _BLOCKED):
            return Enforced.UNKNOWN
        return Enforced.YES if closed == _BLOCKED else Enforced.NO

    async def _try(self, how: str, role: str) -> int | None:
        """The exit code of a pod that dials; None if it did not come to an end."""
        name = f"codehub-{self._options.installation}-probe-{secrets.token_hex(4)}"
        body = m.probe_pod(self._options, name, role, ["python3", "-c", _PROGRAM, how])
        try:
            made = await self._cluster.create("pods", body)
        except ApiError as error:
            raise ActionFailed(refusal(error.message)) from error
        last = made
        try:
            async with asyncio.timeout(_PROBE_SECONDS):
                while last["status"].get("phase") not in ("Succeeded", "Failed"):
                    await asyncio.sleep(_POLL_SECONDS)
                    last = await self._cluster.get("pods", name) or {"status": {"phase": "Failed"}}
        except TimeoutError:
            raise ActionFailed(f"The pod that was to try the network has not ended. {explain(last)}") from None
        finally:
            with suppress(CodeHubError, ApiError):
                await self._cluster.delete("pods", name, uid=made["metadata"]["uid"])
        ends = (one.get("state", {}).get("terminated", {}) for one in last["status"].get("containerStatuses", ()))
        return next((end.get("exitCode") for end in ends), None)

    async def _sweep(self) -> None:
        """Pods of tries that were cut off."""
        for role in (m.PROBE, p.CLOSED_PROBE):
            for pod in await self._cluster.all("pods", m.selector(self._options.installation, role)):
                meta = pod["metadata"]
                age = datetime.now(UTC) - datetime.fromisoformat(meta["creationTimestamp"])
                if age.total_seconds() > _LEFT_BEHIND_SECONDS:
                    with suppress(ApiError):
                        await self._cluster.delete("pods", meta["name"], uid=meta["uid"])
