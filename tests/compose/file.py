"""compose.yaml as Compose reads it: anchors merged, variables replaced by their values or defaults."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
FILE = ROOT / "compose.yaml"
PREPARE = ROOT / "deploy/compose/prepare"

_VARIABLE = re.compile(r"\$\{(\w+)(?::([-?])([^}]*))?\}")


def services(**variables: str) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = _read({"DOCKER_GID": "999", **variables})["services"]
    return found


def files_of(service: Mapping[str, Any]) -> dict[str, str]:
    """Which secret each file in /run/secrets of a service is."""
    found: dict[str, str] = {}
    for one in service.get("secrets", ()):
        found |= {one["target"]: one["source"]} if isinstance(one, dict) else {one: one}
    return found


def secrets() -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = _read({"DOCKER_GID": "999"})["secrets"]
    return found


def variables() -> set[str]:
    """Every variable that the file reads."""
    return {match[1] for match in _VARIABLE.finditer(FILE.read_text())}


def _read(values: Mapping[str, str]) -> Any:
    def value(match: re.Match[str]) -> str:
        name, kind, rest = match.groups()
        if values.get(name):
            return values[name]
        assert kind == "-", f"{name} has no default"
        return str(rest)

    def replaced(node: Any) -> Any:
        match node:
            case dict():
                return {key: replaced(each) for key, each in node.items()}
            case list():
                return [replaced(each) for each in node]
            case str():
                return _VARIABLE.sub(value, node)
        return node

    return replaced(yaml.safe_load(FILE.read_text()))
