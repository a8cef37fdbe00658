"""Which cluster a kubeconfig or a pod's account leads to, and what is said about those that cannot be used."""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import certifi
import pytest

from codehub.drivers.kubernetes.access import config_access, find_access, pod_access
from codehub.errors import SettingsError, Unreachable


def config(folder: Path, user: dict[str, Any], cluster: dict[str, Any] | None = None, **more: Any) -> Path:
    path = folder / "config"
    text = {
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "homes"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://10.0.0.1:6443/", **(cluster or {})}}],
        "users": [{"name": "u", "user": user}],
        **more,
    }
    path.write_text(json.dumps(text))  # JSON is YAML
    return path


async def test_a_token(tmp_path: Path) -> None:
    access = config_access(config(tmp_path, {"token": "t"}), None)
    assert (access.server, access.namespace, await access.token()) == ("https://10.0.0.1:6443", "homes", "t")


async def test_a_token_in_a_file_is_relative_to_the_kubeconfig(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("from-file\n")
    assert await config_access(config(tmp_path, {"tokenFile": "token"}), None).token() == "from-file"
    with pytest.raises(Unreachable):
        await config_access(config(tmp_path, {"tokenFile": "absent"}), None).token()


async def test_a_program_that_gives_a_token_is_asked_once(tmp_path: Path) -> None:
    program = tmp_path / "give.py"
    program.write_text(
        "import json, os, pathlib\n"
        "runs = pathlib.Path('runs'); runs.write_text(runs.read_text() + '.' if runs.exists() else '.')\n"
        "assert json.loads(os.environ['KUBERNETES_EXEC_INFO'])['kind'] == 'ExecCredential'\n"
        "print(json.dumps({'status': {'token': os.environ['WORD'], 'expirationTimestamp': '2099-01-01T00:00:00Z'}}))\n"
    )
    user = {"exec": {"command": sys.executable, "args": [str(program)], "env": [{"name": "WORD", "value": "secret"}]}}
    access = config_access(config(tmp_path, user), None)
    assert [await access.token() for _ in range(3)] == ["secret"] * 3
    assert (tmp_path / "runs").read_text() == "."


@pytest.mark.parametrize("command", [["/nowhere/at-all"], [sys.executable, "-c", "print('nonsense')"]])
async def test_a_program_that_fails_is_an_outage(tmp_path: Path, command: list[str]) -> None:
    user = {"exec": {"command": command[0], "args": command[1:]}}
    with pytest.raises(Unreachable, match="gave no token"):
        await config_access(config(tmp_path, user), None).token()


@pytest.mark.parametrize(
    ("user", "cluster", "words"),
    [
        ({"username": "u", "password": "p"}, {}, "username is not supported"),
        ({"auth-provider": {"name": "gcp"}}, {}, "auth-provider is not supported"),
        ({"token": "t"}, {"proxy-url": "http://x"}, "proxy-url is not supported"),
        ({"token": "t"}, {"certificate-authority": "absent.pem"}, "certificate-authority cannot be read"),
        ({"token": "t"}, {"certificate-authority-data": "%%%"}, "certificate-authority cannot be read"),
        ({"client-certificate-data": "eA==", "client-key-data": "eA=="}, {}, "certificates that cannot be used"),
    ],
)
def test_what_cannot_be_used_is_said(tmp_path: Path, user: dict[str, Any], cluster: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        find_access(config(tmp_path, user, cluster), None)


@pytest.mark.parametrize("text", ["", "[]", "{", "current-context: x", "null"])
def test_what_is_no_kubeconfig_is_one_line(tmp_path: Path, text: str) -> None:
    (tmp_path / "config").write_text(text)
    with pytest.raises(SettingsError, match="not a complete kubeconfig"):
        find_access(tmp_path / "config", None)


def test_one_that_is_not_there_and_a_context_that_is_not_in_it(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot be read"):
        find_access(tmp_path / "absent", None)
    with pytest.raises(SettingsError, match="no context 'there'"):
        find_access(config(tmp_path, {"token": "t"}), "there")


async def test_the_account_of_a_pod(tmp_path: Path) -> None:
    shutil.copy(certifi.where(), tmp_path / "ca.crt")
    (tmp_path / "token").write_text("t")
    (tmp_path / "namespace").write_text("homes\n")
    environment = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "6443"}
    access = pod_access(tmp_path, environment)
    assert (access.server, access.namespace, await access.token()) == ("https://[fd00::1]:6443", "homes", "t")
    with pytest.raises(SettingsError):
        pod_access(tmp_path, {})
