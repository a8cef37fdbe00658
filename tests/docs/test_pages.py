"""Pages that are made from the code say what the code says."""

from pathlib import Path

from codehub.cli import settings_page
from codehub.config import setting_names

ROOT = Path(__file__).parents[2]


def test_the_settings_page_is_the_code_s() -> None:
    page = (ROOT / "docs" / "settings.md").read_text()
    assert page == settings_page.markdown(), "run `make docs`"


def test_every_setting_is_documented_once() -> None:
    page = (ROOT / "docs" / "settings.md").read_text()
    for name in setting_names():
        assert page.count(f"| `{name}` |") == 1


def test_the_readme_s_commands_exist() -> None:
    readme, makefile = (ROOT / "README.md").read_text(), (ROOT / "Makefile").read_text()
    for target in ("up", "test", "check"):
        assert f"make {target}" in readme
        assert f"\n{target}:" in makefile


def test_what_is_installed_is_locked_by_hash_and_names_no_host() -> None:
    for lock in (ROOT / "requirements").glob("*.txt"):
        text = lock.read_text()
        assert "--hash=sha256:" in text
        assert "://" not in text
