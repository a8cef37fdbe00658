"""The threat model: the page is what `codehub doctor --security` shows, and each test that it names exists."""

import re
from pathlib import Path

import pytest

from codehub.model.workspace import InstanceBackend
from codehub.services.doctor.promises import FOLDERS, PROMISES, judged, table
from tests.docs import __file__ as here

ROOT = Path(here).parents[2]
PAGE = ROOT / "docs/security.md"
NAMED = re.compile(r"`(test_[a-z_]+\.py)(?:::(test_[a-z0-9_]+))?`")


@pytest.mark.parametrize("backend", InstanceBackend)
def test_the_page_has_the_tables_of_the_command(backend: InstanceBackend) -> None:
    assert table(backend) in PAGE.read_text(), "docs/security.md and services/doctor/promises.py differ"


@pytest.mark.parametrize("backend", InstanceBackend)
def test_every_test_that_holds_a_promise_exists(backend: InstanceBackend) -> None:
    for promise in PROMISES[backend]:
        file, _, test = promise.test.partition("::")
        assert f"def {test}(" in (ROOT / FOLDERS[backend] / file).read_text(), promise.test


def test_every_test_that_the_page_names_exists() -> None:
    named = NAMED.findall(PAGE.read_text())
    assert len(named) > 10
    for file, test in named:
        found = [
            folder
            for folder in FOLDERS.values()
            if (path := ROOT / folder / file).exists() and f"def {test}" in path.read_text()
        ]
        assert found, f"{file}::{test}"


@pytest.mark.parametrize("backend", InstanceBackend)
def test_what_breaks_a_promise_is_what_a_driver_says(backend: InstanceBackend) -> None:
    """Were a sentence of a driver put in other words, its promise would be said to hold."""
    folder = {"k8s": "kubernetes"}.get(backend, backend)
    said = "".join(path.read_text() for path in (ROOT / "src/codehub/drivers" / folder).glob("*.py"))
    for promise in PROMISES[backend]:
        for sign in promise.broken_by:
            assert sign in said, sign
            assert dict(judged(backend, [f"WARNING: x {sign} y"]))[promise] is not None
    assert all(broken is None for _, broken in judged(backend, []))
