"""The requirements: each test that the page names exists, and each row names one."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "requirements.md"
_ROW = re.compile(r"^\| (?!asked for|---)", re.MULTILINE)
_NAMED = re.compile(r"\| `([a-z0-9_/]+\.py)::(test_\w+)` \|$", re.MULTILINE)


def test_every_test_that_the_page_names_exists() -> None:
    for file, test in _NAMED.findall(PAGE.read_text()):
        source = (ROOT / "tests" / file).read_text()
        assert re.search(rf"^(async )?def {test}\(", source, re.MULTILINE), f"{file}::{test}"


def test_every_requirement_names_its_test_once() -> None:
    page = PAGE.read_text()
    named = _NAMED.findall(page)
    assert len(named) == len(_ROW.findall(page)) > 50
    assert len(set(named)) == len(named), "one test for two requirements"
