"""A collection over a large store does not have Python look through it for cycles, and leaves things as they were."""

import gc

import pytest

from codehub.coordinator.collect import set_aside, unscanned


def broken() -> None:
    raise ValueError("whatever")


def test_while_much_is_read_nothing_is_scanned() -> None:
    assert gc.isenabled()
    with unscanned():
        assert not gc.isenabled()
        with pytest.raises(ValueError, match="whatever"), unscanned():
            broken()
        assert not gc.isenabled()
    assert gc.isenabled()


@pytest.mark.parametrize("served", [False, True])
def test_what_is_kept_is_set_aside(served: bool) -> None:
    gc.unfreeze()  # what another test's server has set aside
    if served:
        gc.freeze()
    try:
        with set_aside():
            assert gc.get_freeze_count() > 0
            assert gc.isenabled()
        with pytest.raises(ValueError, match="whatever"), set_aside():
            broken()
        assert (gc.get_freeze_count() > 0) is served
    finally:
        gc.unfreeze()
