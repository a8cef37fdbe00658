"""How the engine's answers are read."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from codehub.drivers.docker import seen
from codehub.drivers.docker.api import version_prefix
from codehub.drivers.docker.pulls import split_reference
from codehub.drivers.docker.reach import reach_of
from codehub.drivers.registry import is_without_cause, pull_failure
from codehub.errors import ActionFailed, DriverError, TerminalError, Unreachable
from codehub.model.names import archive_key
from codehub.model.observation import JobState
from codehub.model.workspace import ErrorReason, OpId, WorkspaceId
from tests.drivers_docker.conftest import JobUrls
from tests.drivers_docker.test_spec import options

WORKSPACE, OP = WorkspaceId(UUID(int=1)), OpId(UUID(int=2))
MADE = datetime(2026, 1, 1, tzinfo=UTC)
KEY = archive_key(WORKSPACE, OP)
FOLDER = KEY.rpartition("/")[0]


def a_job(state: str, exit_code: int | None = None) -> seen.Job:
    return seen.Job("id", WORKSPACE, OP, state, MADE, exit_code, "uid")


def said(**content: Any) -> str:
    return "2026-01-01T00:00:05.123456789Z " + json.dumps(content)


@pytest.mark.parametrize(
    ("job", "log", "state", "error"),
    [
        (a_job("running"), "", JobState.RUNNING, None),
        (a_job("paused"), said(state="running", bytes_done=7), JobState.RUNNING, None),
        (a_job("exited", 0), said(state="done"), JobState.SUCCEEDED, None),
        (a_job("exited", 0), "", JobState.FAILED, ErrorReason.ACTION_FAILED),
        (a_job("exited", 0), said(state="running"), JobState.FAILED, ErrorReason.ACTION_FAILED),
        (a_job("exited", 1), said(state="done"), JobState.FAILED, ErrorReason.ACTION_FAILED),
        (a_job("exited", 137), "", JobState.FAILED, ErrorReason.ACTION_FAILED),
        (a_job("exited", 10), said(state="failed", message="no"), JobState.FAILED, ErrorReason.ACTION_FAILED),
        (a_job("exited", 11), said(state="failed", message="no"), JobState.FAILED, ErrorReason.UNREACHABLE),
        (a_job("exited", 20), said(state="failed", message="no"), JobState.FAILED, ErrorReason.ARCHIVE_CORRUPTED),
        (a_job("dead"), "", JobState.FAILED, ErrorReason.ACTION_FAILED),
    ],
)
def test_what_became_of_a_job(job: seen.Job, log: str, state: JobState, error: ErrorReason | None) -> None:
    found = seen.job_seen(job, log, 0.0)
    assert found.state is state
    assert error is None or found.error is error
    assert state is JobState.FAILED or not found.message


def test_a_marker_comes_from_the_jobs_own_words_alone() -> None:
    done = seen.job_seen(a_job("exited", 0), said(state="done", restore_marker=KEY), 0.0)
    assert done.restore_marker == KEY
    assert seen.job_seen(a_job("exited", 0), said(state="done"), 0.0).restore_marker is None
    assert seen.job_seen(a_job("exited", 10), said(state="done", restore_marker=KEY), 0.0).restore_marker is None


def test_progress_has_the_time_of_the_last_report() -> None:
    log = "\n".join(["2026-01-01T00:00:01Z garbage", said(state="running", bytes_done=5, files_done=2), "no time {}"])
    found = seen.job_seen(a_job("running"), log, 0.0)
    assert (found.bytes_done, found.files_done) == (5, 2)
    assert found.progress_at == MADE + timedelta(seconds=5, microseconds=123456)
    assert seen.job_seen(a_job("running"), "", 0.0).progress_at == MADE


@pytest.mark.parametrize(
    "words", [{"bytes_done": "many"}, {"files_done": [1]}, {"restore_marker": 5}, {"message": {"a": 1}}]
)
@pytest.mark.parametrize("state", ["done", "failed", "running", 7])
def test_a_job_that_talks_nonsense_is_seen_all_the_same(words: dict[str, object], state: object) -> None:
    for job in (a_job("running"), a_job("exited", 0), a_job("exited", 10)):
        found = seen.job_seen(job, said(**({"state": state} | words)), 0.0)
        assert (found.restore_marker, found.bytes_done, found.files_done) == (None, 0, 0)
        assert isinstance(found.message, str)
    assert seen.job_seen(a_job("running"), "2026-01-01T00:00:01Z " + "[" * 100_000, 0.0).bytes_done == 0


def test_a_job_that_was_never_started_has_failed_after_a_while() -> None:
    assert seen.job_seen(a_job("created"), "", 5.0).state is JobState.RUNNING
    assert seen.job_seen(a_job("created"), "", 300.0).state is JobState.FAILED


def test_frames_of_a_log() -> None:
    def frame(text: bytes) -> bytes:
        return b"\1\0\0\0" + len(text).to_bytes(4, "big") + text

    assert seen.plain_log(frame(b"one\n") + frame(b"two\n")) == "one\ntwo\n"
    assert seen.plain_log(frame(b"one\n") + frame(b"two\n")[:6]) == "one\n"
    assert seen.plain_log(b"") == ""


@pytest.mark.parametrize(
    ("message", "error"),
    [
        ("pull access denied for x, repository does not exist or may require 'docker login'", TerminalError),
        ("manifest for x:1 not found: manifest unknown", TerminalError),
        ('failed to resolve reference "r.example/x:1": r.example/x:1: not found', TerminalError),
        ("unauthorized: authentication required", TerminalError),
        ("couldn't parse image name: invalid reference format", TerminalError),
        ("no matching manifest for linux/arm64 in the manifest list entries", TerminalError),
        ("Get https://registry/v2/: dial tcp: lookup registry: no such host", Unreachable),
        ("Get https://registry/v2/: net/http: request canceled (Client.Timeout exceeded)", Unreachable),
        ("dial tcp 127.0.0.1:9: connect: connection refused", Unreachable),
        ("received unexpected HTTP status: 503 Service Unavailable", Unreachable),
        ("pulling from host r.example failed with status code https://r.example/v2/x: 502", Unreachable),
        ("toomanyrequests: too many requests", Unreachable),
        ('Get "https://registry/v2/": EOF', Unreachable),
        ("failed to register layer: no space left on device", ActionFailed),
        ("x509: certificate signed by unknown authority", ActionFailed),
    ],
)
def test_a_registry_that_is_out_is_not_a_missing_image(message: str, error: type[DriverError]) -> None:
    found = pull_failure("registry.example/timeout/not-found:503", message)
    assert type(found) is error
    assert type(pull_failure("team/api/orders:1502", f"team/api/orders:1502: {message}")) is error
    assert str(found).count("..") == 0


@pytest.mark.parametrize(
    ("message", "is_open"),
    [
        ('Back-off pulling image "r.example/x:1"', True),
        ('Back-off pulling image "r.example/x:1": ErrImagePull: r.example/x:1: not found', False),
        ("rpc error: code = NotFound desc = not found", False),
    ],
)
def test_a_node_that_only_waits_says_nothing_about_the_image(message: str, is_open: bool) -> None:
    assert is_without_cause(message) is is_open


@pytest.mark.parametrize(
    ("image", "parts"),
    [
        ("debian", ("debian", "latest")),
        ("debian:trixie", ("debian", "trixie")),
        ("host:5000/a/b", ("host:5000/a/b", "latest")),
        ("host:5000/a/b:1", ("host:5000/a/b", "1")),
        ("a@sha256:00", ("a", "sha256:00")),
    ],
)
def test_references(image: str, parts: tuple[str, str]) -> None:
    assert split_reference(image) == parts


def test_versions() -> None:
    assert version_prefix("1.41") == "/v1.41"
    assert version_prefix("1.99") == "/v1.47"
    with pytest.raises(Unreachable):
        version_prefix("1.40")


@pytest.mark.parametrize(
    ("url", "store", "network", "folder", "access"),
    [
        (f"file:///srv/archives/{KEY}", {}, "none", f"/srv/archives/{FOLDER}", None),
        (f"file:///srv/with%20space/{KEY}", {}, "none", f"/srv/with space/{FOLDER}", None),
        (f"s3://b/{KEY}", {}, "codehub-one-jobs", None, (443, ())),
        (f"s3://b/{KEY}", {"endpoint": "http://127.0.0.1:9"}, "host", None, None),
        (f"s3://b/{KEY}", {"endpoint": "http://localhost:9"}, "host", None, None),
        (f"s3://b/{KEY}", {"endpoint": "http://[::1]:9"}, "host", None, None),
        (f"s3://b/{KEY}", {"endpoint": "http://10.0.0.5:9000"}, "codehub-one-jobs", None, (9000, ("10.0.0.5",))),
        (f"s3://b/{KEY}", {"endpoint": "https://10.0.0.5"}, "codehub-one-jobs", None, (443, ("10.0.0.5",))),
        (f"s3://b/{KEY}", {"endpoint": "https://8.8.8.8"}, "codehub-one-jobs", None, (443, ())),
    ],
)
async def test_how_a_job_reaches_the_store(
    url: str,
    store: dict[str, object],
    network: str,
    folder: str | None,
    access: tuple[int, tuple[str, ...]] | None,
) -> None:
    reach = await reach_of(JobUrls(url, f"{url}.meta", store), options())
    assert (reach.network, reach.folder) == (network, folder)
    assert (reach.access and (reach.access.port, reach.access.addresses)) == access


@pytest.mark.parametrize(
    ("memory", "bytes_"),
    [
        ({"usage": 900, "stats": {"inactive_file": 200}}, 700),
        ({"usage": 900, "stats": {"total_inactive_file": 300}}, 600),
        ({"usage": 900}, 900),
    ],
)
def test_memory_that_the_engine_could_take_back_does_not_count(memory: dict[str, Any], bytes_: int) -> None:
    usage = seen.usage_of({"cpu_stats": {"cpu_usage": {"total_usage": 2_500_000_000}}, "memory_stats": memory})
    assert usage is not None
    assert (usage.cpu_seconds, usage.memory_bytes) == (2.5, bytes_)


@pytest.mark.parametrize("stats", [{}, {"cpu_stats": {"cpu_usage": {"total_usage": 0}}, "memory_stats": {}}])
def test_a_container_that_has_ended_uses_nothing(stats: dict[str, Any]) -> None:
    assert seen.usage_of(stats) is None
