"""Other versions of CodeHub than this tree's: the one before, from the repository's history, and a made-up next one."""

import shutil
import subprocess
from pathlib import Path

from codehub.db import migrate
from tests.support import skip
from tests.upgrade.parts import Version

ROOT = Path(__file__).parents[2]
_MIGRATIONS = "src/codehub/db/migrations/versions"

_EXPANDS = """
ALTER TABLE workspaces ADD COLUMN of_next text NOT NULL DEFAULT 'unknown';
ALTER TABLE sessions ADD COLUMN of_next jsonb;
CREATE TABLE of_next (id integer PRIMARY KEY, workspace_id uuid REFERENCES workspaces (id));
CREATE INDEX idx_workspaces_of_next ON workspaces (of_next);
GRANT SELECT, INSERT (of_next), UPDATE (of_next) ON workspaces TO codehub_api;
GRANT SELECT, INSERT ON of_next TO codehub_api
"""
_CONTRACTS = "ALTER TABLE samples RENAME COLUMN pending TO waiting"
_REVISION = '''"""Of a version that is still to come."""

from alembic import op

revision = "{revision}"
down_revision = "{before}"
{mark}

def upgrade() -> None:
    op.execute("""{statements}""")
'''


def next_version(folder: Path, *, contracts: bool = False) -> Version:
    """This tree with a migration more, which expands the schema; `contracts`: and then with one that contracts it."""
    source = folder / "next"
    shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("*.egg-info"))  # with what is compiled already
    versions = source / "codehub" / "db" / "migrations" / "versions"
    newest = migrate.newest_version()
    first = _add(versions, newest, _EXPANDS, "")
    if contracts:
        _add(versions, first, _CONTRACTS, f'contract_after = "{first}"\n')
    return Version("next", source)


def _add(versions: Path, before: str, statements: str, mark: str) -> str:
    revision = f"{int(before) + 1:04}"
    text = _REVISION.format(revision=revision, before=before, statements=statements, mark=mark)
    (versions / f"{revision}_of_next.py").write_text(text)
    return revision


def previous_version(folder: Path) -> Version:
    """The last commit that had an older schema; skips where the history does not reach that far."""
    changed = _git("log", "-1", "--diff-filter=A", "--format=%H", "--", _MIGRATIONS)
    before = _git("rev-parse", "--verify", "--quiet", f"{changed}^") if changed else ""
    if not before:
        skip("the repository's history, back to the last migration", "git fetch --unshallow")
    source = folder / "previous"
    source.mkdir()
    archive = subprocess.run(
        ["git", "-C", str(ROOT), "archive", before, "src"], check=True, capture_output=True, timeout=60
    ).stdout
    subprocess.run(["tar", "-x", "-C", str(source)], input=archive, check=True, timeout=60)
    return Version("previous", source / "src")


def _git(*words: str) -> str:
    if shutil.which("git") is None:
        return ""
    command = ["git", "-C", str(ROOT), *words]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=60).stdout.strip()
