"""What the Kubernetes manifests promise: closed pods, one image, settings, probes and selectors that exist."""

import re
from typing import Any

import pytest
import yaml

from codehub.cli.main import app
from codehub.config import Settings, setting_names
from codehub.drivers.kubernetes import manifests as driver
from codehub.drivers.kubernetes import policies
from codehub.metrics import Metrics
from codehub.web.app import create_app
from tests.deploy.manifests import KUBERNETES, OVERLAYS, ROOT, Body, containers, rendered, settings, templates, written

OURS = "codehub"  # the value of app.kubernetes.io/name
COMMANDS = {each.name or getattr(each.callback, "__name__", "") for each in app.registered_commands}
LOGINS = {
    "migrate": "DATABASE_URL",
    "api": "API_DATABASE_URL",
    "proxy": "PROXY_DATABASE_URL",
    "coordinator": "DATABASE_URL",
}
SERVED = {"api": "http", "proxy": "http", "coordinator": "health"}

PODS = [
    pytest.param(labels, spec, id=f"{overlay}-{name}")
    for overlay in OVERLAYS
    for name, labels, spec in templates(written(overlay))
]


def component(labels: Body) -> str:
    return str(labels.get("app.kubernetes.io/component", ""))


@pytest.mark.parametrize(("labels", "spec"), PODS)
def test_a_pod_has_nothing_that_it_does_not_need(labels: Body, spec: Body) -> None:
    context = spec["securityContext"]
    assert context["runAsNonRoot"] is True
    assert context["runAsUser"] > 0
    assert context["seccompProfile"] == {"type": "RuntimeDefault"}
    assert spec["enableServiceLinks"] is False, "a Service's variables would be taken for settings that do not exist"
    if component(labels) == "coordinator":
        assert spec["serviceAccountName"] == "codehub"
    else:
        assert spec["automountServiceAccountToken"] is False
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(spec)
    for container in containers(spec):
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert set(container["resources"]["limits"]) == {"memory"}
        assert set(container["resources"]["requests"]) == {"cpu", "memory"}
    for volume in spec["volumes"]:
        assert set(volume) - {"name"} <= {"emptyDir", "secret", "projected"}


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_every_setting_exists_and_has_a_value_that_is_one(overlay: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for _, labels, spec in templates(written(overlay)):
        if labels["app.kubernetes.io/name"] != OURS:
            continue
        for container in containers(spec):
            given = settings(overlay) | {each["name"]: each["value"] for each in container.get("env", [])}
            assert set(given) <= set(setting_names())
            with monkeypatch.context() as here:
                for name, value in given.items():
                    here.setenv(name, value)
                here.delenv("CODEHUB_SECRETS_DIR")  # it is a folder of the pod
                Settings.load()


@pytest.mark.parametrize(("labels", "spec"), PODS)
def test_it_stops_within_its_time(labels: Body, spec: Body) -> None:
    if labels["app.kubernetes.io/name"] != OURS:
        return
    (container,) = spec["containers"]
    given = {each["name"]: each["value"] for each in container["env"]}
    longest = max(float(given.get(f"CODEHUB_DRAIN_{what}", 0)) for what in ("REQUESTS", "WEBSOCKETS"))
    assert float(given.get("CODEHUB_DRAIN_DELAY", 0)) + longest < spec["terminationGracePeriodSeconds"]


def secrets_of(spec: Body, container: Body) -> dict[str, Body]:
    """What each file of a container's secrets is: the key, and whether it may be missing."""
    found: dict[str, Body] = {}
    places = {mount["name"] for mount in container["volumeMounts"]}
    for volume in (each for each in spec["volumes"] if each["name"] in places):
        sources = [each["secret"] for each in volume.get("projected", {}).get("sources", [])]
        for source in [*sources, *([volume["secret"]] if "secret" in volume else [])]:
            assert source.get("name", source.get("secretName")) == "codehub"
            optional = {"optional": source.get("optional", False)}
            found |= {item["path"]: {"key": item["key"], **optional} for item in source["items"]}
    return found


@pytest.mark.parametrize(("labels", "spec"), PODS)
def test_secrets_are_files_and_each_container_has_its_own(labels: Body, spec: Body) -> None:
    """What the Secret is made of in a trial is drawn by the program that draws it for Docker Compose."""
    drawn = re.findall(r"^keep (\S+) ", (ROOT / "deploy" / "compose" / "prepare").read_text(), re.MULTILINE)
    for container in containers(spec):
        files = secrets_of(spec, container)
        assert {each["key"] for each in files.values()} <= set(drawn)
        if labels["app.kubernetes.io/name"] == OURS:
            assert set(files) <= set(setting_names())
            assert any(name.startswith("S3_") for name in files) == (component(labels) == "coordinator")
            assert files["DATABASE_URL"]["key"] == LOGINS[container["name"]]
            assert [name for name, each in files.items() if each["optional"]] == (
                ["OIDC_CLIENT_SECRET"] if container["name"] == "api" else []
            )
        assert not [each for each in container.get("env", []) if "valueFrom" in each]


def test_the_logins_are_made_before_an_api_starts() -> None:
    (spec,) = [spec for _, labels, spec in templates(written("external")) if component(labels) == "api"]
    (migrate,) = spec["initContainers"]
    assert set(secrets_of(spec, migrate)) == {"DATABASE_URL", "API_DATABASE_URL", "PROXY_DATABASE_URL"}


def test_what_asks_for_no_key_listens_on_the_store_s_own_loopback() -> None:
    (spec,) = [spec for name, _, spec in templates(written("trial")) if name == "s3"]
    asked = {"-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-s3.port.iceberg=0", "-s3.port.lance=0"}
    assert asked <= set(spec["containers"][0]["args"])


def test_there_is_one_image_and_every_command_exists() -> None:
    seen = set()
    for _, labels, spec in templates(written("external")):
        assert component(labels) in SERVED
        for container in containers(spec):
            assert container["image"] == "codehub/codehub"
            program, command = container["args"]
            assert program == "codehub"
            assert command in COMMANDS
            seen.add(command)
    assert seen == {"api", "proxy", "coordinator", "migrate"}


@pytest.mark.parametrize(("labels", "spec"), PODS)
def test_probes_ask_what_is_answered(labels: Body, spec: Body) -> None:
    paths = {getattr(route, "path", None) for route in create_app({}, Metrics()).routes}
    for container in spec["containers"]:
        ports = {port["name"] for port in container.get("ports", [])}
        probes = [probe for name, probe in container.items() if name.endswith("Probe")]
        if labels["app.kubernetes.io/name"] == OURS:
            assert len(probes) == 3
            assert {probe["httpGet"]["path"] for probe in probes} <= paths
        for probe in probes:
            asked = probe.get("httpGet") or probe.get("tcpSocket")
            assert asked is None or asked["port"] in ports
            assert probe["periodSeconds"] > 0


def test_the_health_port_is_where_it_is_said() -> None:
    for _, labels, spec in templates(written("external")):
        (container,) = spec["containers"]
        given = {each["name"]: each["value"] for each in container["env"]}
        ports = {port["name"]: str(port["containerPort"]) for port in container["ports"]}
        assert ports.get("health") == given.get("CODEHUB_HEALTH_PORT"), labels
        assert ports.get("http") == (None if component(labels) == "coordinator" else "8080"), labels


def _selectors(body: Body) -> list[Body]:
    """Of pods in the same namespace as the object."""
    spec = body.get("spec", {})
    match body["kind"]:
        case "Service":
            return [spec["selector"]]
        case "PodDisruptionBudget":
            return [spec["selector"]["matchLabels"]]
        case "NetworkPolicy":
            froms = [peer for rule in spec.get("ingress", []) for peer in rule.get("from", [])]
            peers = [peer["podSelector"] for peer in froms if "namespaceSelector" not in peer]
            return [each.get("matchLabels", {}) for each in (spec["podSelector"], *peers)]
    return []


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_every_selector_finds_pods_and_every_port_is_one_of_theirs(overlay: str) -> None:
    bodies = written(overlay)
    pods = [(labels, spec) for _, labels, spec in templates(bodies)]
    for body in bodies:
        for selector in _selectors(body):
            found = [spec for labels, spec in pods if selector.items() <= labels.items()]
            assert found, (body["kind"], body["metadata"]["name"], selector)
        names = {
            port["name"] for _, spec in pods for container in spec["containers"] for port in container.get("ports", [])
        }
        if body["kind"] == "Service":
            assert {port["targetPort"] for port in body["spec"]["ports"]} <= names
        if body["kind"] == "NetworkPolicy":
            rules = body["spec"].get("ingress", [])
            assert {port["port"] for rule in rules for port in rule.get("ports", [])} <= names


def test_each_part_outlives_a_node_and_those_that_serve_people_grow() -> None:
    bodies = written("external")

    def named(kind: str) -> set[str]:
        return {body["metadata"]["name"] for body in bodies if body["kind"] == kind}

    assert named("PodDisruptionBudget") == named("Deployment") == {f"codehub-{name}" for name in SERVED}
    assert named("HorizontalPodAutoscaler") == {"codehub-api", "codehub-proxy"}
    for body in bodies:
        name, spec = body["metadata"]["name"], body.get("spec", {})
        if body["kind"] == "HorizontalPodAutoscaler":
            assert spec["scaleTargetRef"]["name"] == name
            assert spec["minReplicas"] >= 2
        elif body["kind"] == "Deployment":
            # The autoscaler's number must not be written over by the next apply.
            assert spec.get("replicas") == (2 if name == "codehub-coordinator" else None)
            assert spec["strategy"]["rollingUpdate"]["maxUnavailable"] == 0


def test_nobody_dials_what_was_not_said() -> None:
    found = {body["metadata"]["name"]: body["spec"] for body in written("trial") if body["kind"] == "NetworkPolicy"}
    assert found["nothing-unless-said"] == {"podSelector": {}, "policyTypes": ["Ingress"]}
    jobs = [
        peer for rule in found["s3"]["ingress"] for peer in rule["from"] if peer.get("namespaceSelector") is not None
    ]
    assert jobs == [
        {
            "namespaceSelector": {"matchLabels": {policies.NAMESPACE_NAME: settings("trial")["K8S_NAMESPACE"]}},
            "podSelector": {"matchLabels": {driver.ROLE: driver.JOB}},
        }
    ]
    for _, labels, _ in templates(written("external")):
        assert policies.CONTROL_PLANE.items() <= labels.items(), "workspaces are dialled by this label"


def test_the_role_is_the_coordinator_s_in_the_workspaces_namespace() -> None:
    bodies = written("external")
    (binding,) = [body for body in bodies if body["kind"] == "RoleBinding"]
    (role,) = [body for body in bodies if body["kind"] == "Role"]
    (account,) = [body for body in bodies if body["kind"] == "ServiceAccount"]
    workspaces = settings("external")["K8S_NAMESPACE"]
    assert {binding["metadata"]["namespace"], role["metadata"]["namespace"]} == {workspaces}
    subject = {"kind": "ServiceAccount", "name": account["metadata"]["name"], "namespace": "codehub"}
    assert binding["subjects"] == [subject]
    assert not [body for body in bodies if body["kind"].startswith("ClusterRole")]
    namespaces = {
        body["metadata"]["name"]: body["metadata"]["labels"] for body in bodies if body["kind"] == "Namespace"
    }
    assert set(namespaces) == {"codehub", workspaces}
    assert namespaces["codehub"]["pod-security.kubernetes.io/enforce"] == "restricted"
    for name, labels in namespaces.items():
        assert labels[policies.NAMESPACE_NAME] == name


def test_both_names_of_the_public_address_lead_to_the_proxy() -> None:
    given = settings("external")
    hosts = {given["CODEHUB_PUBLIC_URL"].removeprefix("https://"), f"*.{given['CODEHUB_WORKSPACE_HOST']}"}
    patches: list[dict[str, Any]] = yaml.safe_load(
        (KUBERNETES / "overlays" / "external" / "kustomization.yaml").read_text()
    )["patches"]
    patched = [each["value"] for each in yaml.safe_load(patches[0]["patch"])]
    assert set(patched[0]) == hosts == set(patched[1:])
    (ingress,) = [body for body in written("external") if body["kind"] == "Ingress"]
    for rule in ingress["spec"]["rules"]:
        (path,) = rule["http"]["paths"]
        assert path["backend"]["service"] == {"name": "codehub-proxy", "port": {"name": "http"}}


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_kustomize_renders_it(overlay: str) -> None:
    bodies = rendered(KUBERNETES / "overlays" / overlay)
    kinds = [body["kind"] for body in bodies]
    assert kinds.count("Deployment") == (3 if overlay == "external" else 4)
    assert ("Ingress" in kinds) == (overlay == "external")
    (settled,) = [body for body in bodies if body["kind"] == "ConfigMap"]
    assert settled["data"] == settings(overlay)
    for _, labels, spec in templates(bodies):
        for container in containers(spec):
            if labels["app.kubernetes.io/name"] == OURS:
                assert container["envFrom"] == [{"configMapRef": {"name": settled["metadata"]["name"]}}]
    if overlay == "external":
        images = {each["image"] for _, _, spec in templates(bodies) for each in containers(spec)}
        assert images == {"registry.example.com/codehub:1"}
