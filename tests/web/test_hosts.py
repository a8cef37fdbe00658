"""Which host is whose."""

from uuid import UUID

import pytest

from codehub.model.visiting import Destination
from codehub.model.workspace import WorkspaceId
from codehub.web.hosts import Hosts, Place

ID = WorkspaceId(UUID(int=7))


@pytest.mark.parametrize(("authority", "place"), [
    ("codehub.example.com", Place.MAIN),
    ("CodeHub.example.com.:8443", Place.MAIN),
    ("example.com", Place.MAIN),
    (f"{ID}.example.com", Destination(ID)),
    (f"{str(ID).upper()}.Example.com.:443", Destination(ID)),
    (f"3000--{ID}.example.com", Destination(ID, 3000)),
    (f"80--{ID}.example.com", Place.NOWHERE),
    (f"70000--{ID}.example.com", Place.NOWHERE),
    ("other.example.com", Place.NOWHERE),
    (f"{'x' * 400}.example.com", Place.NOWHERE),
    (f"{ID}.codehub.example.com", Place.NOWHERE),
])  # fmt: skip
def test_codehub_may_be_beside_its_workspaces(authority: str, place: Destination | Place) -> None:
    hosts = Hosts("example.com", "https://codehub.example.com")
    assert hosts.place_of(authority) == place
    assert hosts.place_of(authority) == place, "from memory too"
