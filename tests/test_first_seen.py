"""How long a thing was seen, by a clock of our own."""

from codehub.drivers.first_seen import FirstSeen


def test_ages_count_from_the_first_look_and_end_with_the_thing() -> None:
    now = 1000.0
    seen = FirstSeen(lambda: now)
    assert seen.ages({"a"}) == {"a": 0.0}
    now += 5
    assert seen.ages({"a", "b"}) == {"a": 5.0, "b": 0.0}
    now += 5
    assert seen.ages({"b"}) == {"b": 5.0}
    assert seen.ages({"a"}) == {"a": 0.0}, "one that came back is another"
