"""Collections of archives: what administrators ask for and what came of each; and everybody's workspaces, by age.

An administrator's request is the service layer's row, what became of it the controller's. A cycle that nobody asked for
is the controller's alone.
"""

from alembic import op

from codehub.db.migrations import forward_only

revision = "0010"
down_revision = "0009"

# No foreign key: the report outlives the account.
CREATE_GC_RUNS = """
CREATE TABLE gc_runs (
    id uuid CONSTRAINT gc_runs_pkey PRIMARY KEY,
    requested_by uuid,
    requested_at timestamptz NOT NULL DEFAULT now(),
    dry_run boolean NOT NULL DEFAULT false,
    override boolean NOT NULL DEFAULT false,
    unknown_too boolean NOT NULL DEFAULT false,
    started_at timestamptz,
    finished_at timestamptz,
    report jsonb,

    CONSTRAINT gc_runs_report CHECK ((finished_at IS NULL) = (report IS NULL))
);

CREATE INDEX idx_gc_runs_requested ON gc_runs (requested_at, id);
CREATE INDEX idx_gc_runs_waiting ON gc_runs (requested_at) WHERE finished_at IS NULL;
"""

NOTIFY = """
CREATE FUNCTION gc_runs_notify() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('gc_requested', '');
    RETURN NULL;
END $$;

CREATE TRIGGER gc_runs_notify_new AFTER INSERT ON gc_runs FOR EACH ROW
WHEN (NEW.finished_at IS NULL)
EXECUTE FUNCTION gc_runs_notify();
"""

GRANTS = """
REVOKE ALL ON gc_runs FROM PUBLIC;
REVOKE ALL ON FUNCTION gc_runs_notify() FROM PUBLIC;
GRANT SELECT, INSERT (id, requested_by, dry_run, override, unknown_too) ON gc_runs TO codehub_api;
GRANT SELECT, INSERT (id, started_at, finished_at, report), UPDATE (started_at, finished_at, report), DELETE
    ON gc_runs TO codehub_controller;
"""

EVERYBODYS = "CREATE INDEX idx_workspaces_created ON workspaces (created_at, id)"


def upgrade() -> None:
    for statement in (CREATE_GC_RUNS, NOTIFY, GRANTS, EVERYBODYS):
        op.execute(statement)


downgrade = forward_only
