"""An M1 installation is taken over as it stands; anything else in the way is left alone, with a sentence."""

import psycopg
import pytest

from codehub.db import migrate
from codehub.errors import StartError
from tests.db.schema import snapshot

# Another spelling of M1: no enum types, names of its own, times with a zone, and some columns never added.
M1_BY_HAND = """
CREATE TYPE instance_backend AS ENUM ('local-docker', 'k8s');
CREATE TABLE users (
    id uuid CONSTRAINT pk_users PRIMARY KEY,
    username varchar(50) NOT NULL CONSTRAINT uq_users UNIQUE,
    password_hash varchar(255) NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);
CREATE TABLE workspaces (
    id uuid CONSTRAINT workspaces_owner_fkey PRIMARY KEY,
    owner_user_id uuid NOT NULL REFERENCES users,
    name text NOT NULL,
    image_ref text NOT NULL,
    instance_backend instance_backend NOT NULL,
    storage_backend varchar(20) NOT NULL,
    home_store_key text NOT NULL,
    observed_status varchar(20) NOT NULL,
    health_status varchar(20) NOT NULL,
    desired_state varchar(20) NOT NULL,
    archive_key text,
    created_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX idx_workspaces_running ON workspaces (owner_user_id);
INSERT INTO users VALUES ('00000000-0000-0000-0000-000000000001', 'ada', 'hash', '2025-01-01 00:00+09');
INSERT INTO workspaces VALUES (
    '00000000-0000-0000-0000-000000000002', '00000000-0000-0000-0000-000000000001', 'w', 'ide', 'local-docker', 'minio',
    'ws-00000000-0000-0000-0000-000000000002-home', 'STANDBY', 'OK', 'STANDBY', NULL, '2025-01-01 00:00+09');
"""


def test_an_m1_installation_is_adopted(empty_database: str, migrated_template: str) -> None:
    with psycopg.connect(empty_database) as conn:
        conn.execute(M1_BY_HAND)
    migrate.upgrade(empty_database)
    assert snapshot(empty_database) == snapshot(migrated_template)
    with psycopg.connect(empty_database) as conn:
        assert conn.execute("SELECT username, password_hash, role FROM users").fetchall() == [("ada", "hash", "user")]
        kept = conn.execute(
            """SELECT phase, desired_state, instance_backend, storage_backend, home_ctx ->> 'volume',
                   extract(epoch FROM created_at) = extract(epoch FROM timestamptz '2024-12-31 15:00+00')
               FROM workspaces"""
        ).fetchall()
    assert kept == [("STANDBY", "STANDBY", "docker", "docker-volume", "live", True)]


@pytest.mark.parametrize(
    ("made_by_others", "message"),
    [
        ("CREATE TABLE workspaces (id integer)", 'a table "workspaces" that CodeHub did not make'),
        ("CREATE TABLE users (id integer)", 'a table "users" that CodeHub did not make'),
        ("CREATE TABLE workspaces (observed_status text)", 'no table "users"'),
        (f"{M1_BY_HAND}; ALTER TABLE workspaces ADD COLUMN budget integer", r"does not know: workspaces\.budget\."),
        (f"{M1_BY_HAND}; ALTER TABLE users ADD COLUMN email text", r"does not know: users\.email\."),
        (f"{M1_BY_HAND}; ALTER TABLE workspaces DROP COLUMN image_ref", r"lack columns: workspaces\.image_ref\."),
        (f"{M1_BY_HAND}; UPDATE workspaces SET home_store_key = 'elsewhere'", "home_store_key other than"),
    ],
)
def test_what_is_not_m1_is_left_alone(empty_database: str, made_by_others: str, message: str) -> None:
    with psycopg.connect(empty_database) as conn:
        conn.execute(made_by_others)
    before = snapshot(empty_database)
    with pytest.raises(StartError, match=message) as refused:
        migrate.upgrade(empty_database)
    assert refused.value.hint
    assert snapshot(empty_database) == before
    assert migrate.schema_version(empty_database) is None
