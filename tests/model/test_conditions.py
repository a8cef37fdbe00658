"""Conditions: how a new look is merged in, and how the column is read and written."""

import json
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codehub.model.conditions import Condition, Conditions, from_json, to_json
from tests.model.builders import NOW, later

KEYS = ["storage.volume_ready", "storage.archive_ready", "infra.container_ready", "policy.healthy"]

times = st.integers(-(10**9), 10**9).map(later)
one_condition = st.builds(Condition, st.booleans(), st.text(), st.text(), st.none() | times)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
unknown_keys = st.dictionaries(st.text().filter(lambda key: key not in KEYS), json_values, max_size=3)
any_conditions = st.builds(Conditions, one_condition, one_condition, one_condition, one_condition, unknown_keys)


@given(one_condition, st.booleans(), st.text(), st.text(), times)
@settings(max_examples=100)
def test_the_time_changes_only_with_the_status(
    before: Condition, status: bool, reason: str, message: str, now: datetime
) -> None:
    after = before.seen_as(status, reason, message, now)
    assert (after.status, after.reason, after.message) == (status, reason, message)
    same = status is before.status and before.last_transition_time is not None
    assert after.last_transition_time == (before.last_transition_time if same else now)


@given(one_condition, st.booleans(), st.text(), st.text(), times, times)
@settings(max_examples=100)
def test_the_same_look_twice_is_the_same_condition(
    before: Condition, status: bool, reason: str, message: str, first: datetime, second: datetime
) -> None:
    once = before.seen_as(status, reason, message, first)
    assert once.seen_as(status, reason, message, second) == once


def test_another_reason_or_message_leaves_the_time_alone() -> None:
    before = Condition(False, "VolumeNotFound", "There is none.", NOW)
    after = before.seen_as(False, "VolumeCondemned", "It is going.", later(60))
    assert after == Condition(False, "VolumeCondemned", "It is going.", NOW)


@given(any_conditions)
@settings(max_examples=100)
def test_what_is_written_is_read_back(conditions: Conditions) -> None:
    assert from_json(json.loads(json.dumps(to_json(conditions)))) == conditions


@given(unknown_keys)
@settings(max_examples=100)
def test_keys_of_a_newer_version_survive(unknown: dict[str, Any]) -> None:
    assert to_json(from_json(unknown)) == unknown


def test_a_row_that_was_never_observed_keeps_an_empty_column() -> None:
    assert from_json({}) == Conditions()
    assert to_json(Conditions()) == {}


def test_the_column_has_the_names_and_fields_of_the_specification() -> None:
    fact = Condition(True, "Because", "All is well.", NOW)
    stored = {
        "status": True,
        "reason": "Because",
        "message": "All is well.",
        "last_transition_time": "2026-01-02T03:04:05+00:00",
    }
    assert to_json(Conditions(fact, fact, fact, fact)) == dict.fromkeys(KEYS, stored)


@pytest.mark.parametrize("nothing", [None, {}], ids=["null", "empty"])
@pytest.mark.parametrize("key", KEYS)
def test_a_condition_without_content_has_its_default(key: str, nothing: Any) -> None:
    assert from_json({key: nothing}) == Conditions()


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        ({"status": True}, Condition(True, "NotObserved", "", None)),
        ({"reason": "VolumeNotFound"}, Condition(False, "VolumeNotFound", "", None)),
        ({"status": True, "last_transition_time": None}, Condition(True, "NotObserved", "", None)),
        ({"status": True, "last_transition_time": ""}, Condition(True, "NotObserved", "", None)),
        ({"status": True, "since": "ever"}, Condition(True, "NotObserved", "", None)),
        ({"status": True, "last_transition_time": "2026-01-02T03:04:05Z"}, Condition(True, "NotObserved", "", NOW)),
    ],
    ids=["only status", "only reason", "no time", "empty time", "more fields", "time in Z"],
)
def test_missing_fields_take_their_defaults(stored: dict[str, Any], expected: Condition) -> None:
    assert from_json({"storage.volume_ready": stored}).volume_ready == expected


def test_health_without_a_status_is_healthy() -> None:
    assert from_json({"policy.healthy": {"reason": "AllConditionsMet"}}).healthy.status


@given(any_conditions, one_condition)
@settings(max_examples=30)
def test_judging_health_touches_no_observed_fact(conditions: Conditions, healthy: Condition) -> None:
    judged = conditions.with_health(healthy)
    assert judged.healthy == healthy
    assert judged.with_health(conditions.healthy) == conditions


@pytest.mark.parametrize("garbage", [7, "text", [], {"status": "yes", "reason": 3, "last_transition_time": "soon"}])
def test_garbage_is_read_as_the_default(garbage: Any) -> None:
    stored = {"policy.healthy": garbage, "storage.volume_ready": garbage}
    assert from_json(stored).healthy == Condition(True)
    assert from_json(stored).volume_ready == Condition(False)
