"""What is asked of the engine, byte by byte: the files in golden/. A change there changes what workspaces may do.

`python -m tests.drivers_docker.test_spec` writes the files anew.
"""

import json
from pathlib import Path
from uuid import UUID

import pytest

from codehub.drivers.base import Resources
from codehub.drivers.docker import DockerOptions, Outbound, WorkspaceImage, firewall, spec
from codehub.drivers.docker.firewall import StoreAccess
from codehub.errors import SettingsError
from codehub.model.workspace import Incarnation, OpId, VolumeRef, WorkspaceId

GOLDEN = Path(__file__).with_name("golden")
WORKSPACE, OP = WorkspaceId(UUID(int=1)), OpId(UUID(int=2))
VOLUME = VolumeRef(Incarnation("incarnation"), "uid")
IMAGE = WorkspaceImage("codehub/workspace:1")


def options(
    outbound: Outbound = Outbound.INTERNET,
    allow: tuple[str, ...] = (),
    deny: tuple[str, ...] = (),
    dns: tuple[str, ...] = (),
) -> DockerOptions:
    return DockerOptions(
        installation="one",
        images={"code-server": IMAGE},
        job_image="codehub/storage-job:1",
        guard_image="codehub/network-guard:1",
        outbound=outbound,
        allow=allow,
        deny=deny,
        dns=dns,
    )


def workspace(given: DockerOptions, resources: Resources, *, safe_mode: bool = False) -> spec.Body:
    return spec.workspace_body(
        given,
        WORKSPACE,
        VOLUME,
        op_id=OP,
        image=IMAGE,
        anchor_id="a" * 64,
        address="10.0.0.9",
        resources=resources,
        safe_mode=safe_mode,
    )


def job(network: str, mount: spec.Body | None) -> spec.Body:
    return spec.job_body(
        options(),
        WORKSPACE,
        VOLUME,
        op_id=OP,
        verb="archive",
        anchor_id="a" * 64,
        network=network,
        mount=mount,
    )


def goldens() -> dict[str, str]:
    none, some = options(Outbound.NONE), options(allow=("10.1.0.0/16", "10.1.2.0/24"), deny=("203.0.113.0/24",))
    bodies = {
        "anchor": spec.anchor_body("one", WORKSPACE, VOLUME, if_made="void-uid"),
        "workspace": workspace(options(), Resources()),
        "workspace-unlimited": workspace(options(dns=("192.0.2.53",)), Resources(None, None, None)),
        "workspace-no-outbound": workspace(none, Resources()),
        "job-folder": job("none", spec.folder_mount("/srv/archives", read_only=False)),
        "job-s3": job("codehub-one-jobs", None),
        "guard": spec.guard_body(options()),
        "network": spec.network_body(options(), "codehub-one", "chw0", internal=True, subnet="10.0.0.0/24"),
    }
    rules = {
        "internet": firewall.rules(options(), ["10.0.0.53"], None),
        "internet-but": firewall.rules(some, [], StoreAccess(443)),
        "none": firewall.rules(none, ["10.0.0.53"], StoreAccess(9000, ("192.168.1.5",))),
    }
    texts = {f"{name}.json": json.dumps(body, indent=2) + "\n" for name, body in bodies.items()}
    return texts | {f"{name}.nft": text for name, text in rules.items()}


@pytest.mark.parametrize("name", goldens())
def test_golden(name: str) -> None:
    assert goldens()[name] == (GOLDEN / name).read_text()


def test_there_is_no_other_golden_file() -> None:
    assert {path.name for path in GOLDEN.iterdir()} == set(goldens())


def test_nothing_but_the_anchor_mounts_a_volume_by_its_name() -> None:
    for name, text in goldens().items():
        if name != "anchor.json":
            assert "-home" not in text, name
            assert '"Binds"' not in text, name


def test_names_fit_where_they_must() -> None:
    given = options()
    assert len(given.bridge) <= 15  # an interface's name
    assert len({given.bridge, given.job_bridge, given.network, given.job_network}) == 4


@pytest.mark.parametrize("bad", ["", "Upper", "a/b", "x" * 40, "-a"])
def test_a_bad_installation_is_refused(bad: str) -> None:
    with pytest.raises(SettingsError):
        DockerOptions(installation=bad, images={}, job_image="j", guard_image="g")


def test_a_bad_network_is_refused() -> None:
    with pytest.raises(SettingsError):
        options(allow=("10.0.0.1/8",))


if __name__ == "__main__":
    GOLDEN.mkdir(exist_ok=True)
    for file, content in goldens().items():
        (GOLDEN / file).write_text(content)


def test_in_safe_mode_the_home_is_in_its_place_and_its_settings_are_not_found() -> None:
    usual, safe = workspace(options(), Resources()), workspace(options(), Resources(), safe_mode=True)
    assert set(safe.pop("Env")) - set(usual.pop("Env")) == {"HOME=/tmp", f"CODEHUB_SAFE_MODE={spec.HOME}"}
    assert safe == usual
