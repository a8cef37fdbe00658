"""What a word on the command line means: a name before the beginning of an id, and never something else by accident."""

from collections.abc import Mapping
from uuid import UUID

import httpx
import pytest

from codehub.cli import naming
from codehub.cli.exits import CommandError
from codehub.client import Client
from tests.client.scripted import URL, ok, workspace

LIVING = "deadbeef-0000-4000-8000-000000000001"
TRASHED = "deadbeef-0000-4000-8000-000000000002"
NAMED = "0b1f6e0c-5f5e-4b3e-9d7e-0d2f4f8f9a11"


def meant(text: str, places: Mapping[str, Mapping[str, str]], *, deleted: bool = False) -> UUID:
    """Which one `text` means, where `living` and `trash` hold names by their ids."""

    def answer(request: httpx.Request) -> httpx.Response:
        found = places.get("trash" if request.url.params.get("deleted") else "living", {})
        items = [workspace(id=identity, name=name) for identity, name in found.items()]
        return ok({"items": items, "next_cursor": None})

    with Client(URL, "secret", transport=httpx.MockTransport(answer)) as client:
        return naming.workspace(client, text, deleted=deleted).id


@pytest.mark.parametrize("deleted", [False, True])
def test_a_name_goes_before_the_beginning_of_an_id_wherever_it_is(deleted: bool) -> None:
    for places in (
        {"living": {LIVING: "a"}, "trash": {NAMED: "deadbeef"}},
        {"living": {NAMED: "deadbeef"}, "trash": {TRASHED: "a"}},
    ):
        assert meant("deadbeef", places, deleted=deleted) == UUID(NAMED)


def test_living_ones_go_before_the_trash_unless_it_is_about_the_trash() -> None:
    for text in ("deadbeef", "same"):
        places = {"living": {LIVING: "same"}, "trash": {TRASHED: "same"}}
        assert meant(text, places) == UUID(LIVING)
        assert meant(text, places, deleted=True) == UUID(TRASHED)


def test_an_id_begins_with_eight_characters() -> None:
    for short in ("d", "dead", "deadbee", "", "deadbeef%"):
        with pytest.raises(CommandError, match="There is no workspace"):
            meant(short, {"living": {LIVING: "a"}})
    assert meant("DEADBEEF-0000", {"living": {LIVING: "a"}}) == UUID(LIVING)


def test_what_could_mean_several_is_refused() -> None:
    with pytest.raises(CommandError, match="any of 2 workspaces"):
        meant("deadbeef", {"living": {LIVING: "a", TRASHED: "b"}})
    with pytest.raises(CommandError, match="any of 2 workspaces"):
        meant("same", {"living": {LIVING: "same", TRASHED: "same"}})
