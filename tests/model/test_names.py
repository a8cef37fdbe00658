"""Names: made from ids alone, short enough for Kubernetes, and an archive key is read back only from its exact form."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codehub.errors import InvalidName
from codehub.model.names import archive_key, instance_name, job_name, meta_key, parse_archive_key, volume_name
from codehub.model.workspace import OpId, WorkspaceId
from tests.model.builders import OP, WORKSPACE

workspace_ids = st.uuids().map(WorkspaceId)
op_ids = st.uuids().map(OpId)
ID = "00000000-0000-0000-0000-00000000000a"
KEY = f"{ID}/{ID}/home.tar.zst"


@given(workspace_ids, op_ids)
@settings(max_examples=60)
def test_an_archive_key_says_whose_it_is_and_which_operation_made_it(workspace_id: WorkspaceId, op_id: OpId) -> None:
    name = parse_archive_key(archive_key(workspace_id, op_id))
    assert (name.workspace_id, name.op_id) == (workspace_id, op_id)


@given(workspace_ids, op_ids)
@settings(max_examples=60)
def test_every_name_fits_kubernetes(workspace_id: WorkspaceId, op_id: OpId) -> None:
    for name in (instance_name(workspace_id), volume_name(workspace_id), job_name(op_id)):
        assert len(name) <= 63
        assert re.fullmatch(r"[a-z]([-a-z0-9]*[a-z0-9])?", name)


@given(st.lists(st.uuids(), min_size=2, max_size=6, unique=True))
@settings(max_examples=60)
def test_no_two_things_share_a_name(ids: list[WorkspaceId]) -> None:
    names = [name for i in ids for name in (instance_name(i), volume_name(i), job_name(OpId(i)))]
    keys = [key for i in ids for j in ids for key in (archive_key(i, OpId(j)), meta_key(archive_key(i, OpId(j))))]
    assert len(set(names)) == len(names)
    assert len(set(keys)) == len(keys)


def test_the_names_are_those_of_the_contracts() -> None:
    assert instance_name(WORKSPACE) == f"ws-{WORKSPACE}"
    assert volume_name(WORKSPACE) == f"ws-{WORKSPACE}-home"
    assert job_name(OP) == f"ws-job-{OP}"
    assert archive_key(WORKSPACE, OP) == f"{WORKSPACE}/{OP}/home.tar.zst"
    assert meta_key(archive_key(WORKSPACE, OP)) == f"{WORKSPACE}/{OP}/home.tar.zst.meta"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "home.tar.zst",
        KEY + "\n",
        "\n" + KEY,
        KEY + " ",
        KEY + ".meta",
        KEY + "/",
        "/" + KEY,
        "archives/" + KEY,
        KEY.upper(),
        KEY.replace("a/", "A/", 1),
        KEY.replace("0a/", "0g/", 1),
        KEY.replace("-", "", 4),
        KEY.replace("home.tar.zst", "homeXtar.zst"),
        KEY.replace("home", "HOME"),
        KEY.replace("/", "\\"),
        KEY.replace("/", "//"),
        f"{ID}/../home.tar.zst",
        f"../{ID}/{ID}/home.tar.zst",
        f"{ID}/{ID}/../home.tar.zst",
        f"{ID}/{ID}/../../{ID}/{ID}/home.tar.zst",
        f"{{{ID}}}/{ID}/home.tar.zst",
        f"{ID}/home.tar.zst",
        KEY.replace("0", "０", 1),
        KEY + "\0",
    ],
)
def test_anything_but_the_exact_form_is_refused(text: str) -> None:
    with pytest.raises(InvalidName):
        parse_archive_key(text)


pieces = st.sampled_from([ID, ID.upper(), "..", ".", "", "home.tar.zst", "home.tar.zst.meta", "\n", "/", "archives"])


@given(st.text() | st.lists(pieces, max_size=6).map("/".join) | st.lists(pieces, max_size=6).map("".join))
@settings(max_examples=60)
def test_whatever_is_accepted_is_exactly_a_key_we_would_write(text: str) -> None:
    try:
        name = parse_archive_key(text)
    except InvalidName:
        return
    assert archive_key(name.workspace_id, name.op_id) == text
