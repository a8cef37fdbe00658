"""A leader that is told to stop hands over at once; one that is killed is replaced within seconds."""

import signal
import time

import pytest

from codehub.client import Client
from codehub.client.models import Workspace
from tests.support import eventually, first_of
from tests.upgrade.parts import Installation, Part

# A fifth of a second between two attempts of the one that stands by; the rest is for a busy machine.
AT_ONCE_SECONDS = 3.0

pytestmark = pytest.mark.timeout(180)


def pair(here: Installation) -> tuple[Part, Part]:
    """A leader, and one that stands by."""
    leader = here.start("coordinator").is_ready()
    eventually(lambda: here.leads(leader), "the first one leads")
    standby = here.start("coordinator").is_ready()
    eventually(lambda: "this one stands by" in standby.said, "the second one stands by")
    return leader, standby


def runs(client: Client, made: Workspace) -> None:
    eventually(lambda: client.workspace(made.id).phase == "RUNNING", f"{made.name} runs", 60)
    assert client.workspace(made.id).error is None


@pytest.mark.parametrize("how", first_of([signal.SIGTERM, signal.SIGINT, signal.SIGKILL]))
def test_the_other_one_leads_at_once(here: Installation, how: signal.Signals) -> None:
    leader, standby = pair(here)
    epoch, _ = here.leadership()
    at = time.monotonic()
    leader.signal(how)
    eventually(lambda: here.leads(standby), "the other one leads")
    assert time.monotonic() - at < AT_ONCE_SECONDS
    assert here.leadership()[0] > epoch
    assert leader.ended() == (-signal.SIGKILL if how is signal.SIGKILL else 0), leader.said
    standby.stop()


@pytest.mark.exhaustive
def test_an_operation_under_way_is_finished_by_the_other_one(here: Installation) -> None:
    """Nothing that a person sees fails: the driver's calls of the old leader are cut off as by its death."""
    api = here.start("api").is_ready()
    leader, standby = pair(here)
    with here.client(api.url) as client:
        made = [client.create_workspace(f"w{number}", desired_state="RUNNING") for number in range(2)]
        eventually(
            lambda: any(client.workspace(each.id).operation != "NONE" for each in made), "something is under way"
        )
        leader.stop()
        for each in made:
            runs(client, each)
    assert here.leads(standby)
    for part in (standby, api):
        part.stop()
