"""What is believed of feeds: a slip of a unit never becomes a price, and nothing of what is still to come is seen."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.domain.watching import Feed, FeedKind, FeedValue
from planner.replanning.watches.inputs import Timeline, Usual

USUAL = Usual(
    prices=(("H20", 1.0), ("H200", 4.0)),
    counts=(("H20", 64), ("H200", 32)),
    load_rps=10.0,
    node_gpus=(("n-1", (("H20", 8),)), ("n-2", (("H200", 8),))),
)


def feed(kind: FeedKind, *rows: tuple[float, str, float]) -> Feed:
    values = tuple(FeedValue(kind=kind, name=name, value=value, where="f", at_s=at_s) for at_s, name, value in rows)
    return Feed(file="f", values=values)


@pytest.mark.parametrize(
    ("value", "believed"),
    [
        (4.9, True),
        (8.0, False),  # of a node of eight GPUs
        (100.0, False),  # in cents
        (0.1, True),
        (0.001, False),  # in thousands
    ],
)
def test_a_price_of_another_unit_is_refused(value: float, believed: bool) -> None:
    timeline = Timeline([feed(FeedKind.PRICE, (0.0, "H20", 1.1), (60.0, "H20", value))], USUAL)
    seen = timeline.observe(60.0, timeline.observe(0.0))
    assert dict(seen.prices) == {"H20": value if believed else 1.1, "H200": 4.0}
    assert len(seen.notes) == (not believed)


def test_what_is_available_is_counted_by_hand() -> None:
    """64 H20, 6 of them lost, and a node of 8 that is gone from the second minute on."""
    feeds = [feed(FeedKind.LOST, (0.0, "H20", 6)), feed(FeedKind.LOST_NODE, (60.0, "n-1", 1), (120.0, "n-1", 0))]
    timeline, before = Timeline(feeds, USUAL), None
    counts = []
    for at_s in (0.0, 60.0, 120.0):
        before = timeline.observe(at_s, before)
        counts.append(dict(before.available))
    assert counts == [{"H20": 58, "H200": 32}, {"H20": 50, "H200": 32}, {"H20": 58, "H200": 32}]


@given(
    rows=st.lists(st.tuples(st.integers(0, 20), st.sampled_from([-1.0, 1.0, 5.0, 60.0, 1e4])), max_size=12),
    now=st.integers(0, 20),
)
def test_the_future_is_not_seen(rows: list[tuple[int, float]], now: int) -> None:
    def observed(chosen: list[tuple[int, float]]) -> object:
        values = [(float(at_s), "", value) for at_s, value in chosen]
        return Timeline([feed(FeedKind.LOAD, *values)], USUAL).observe(float(now))

    ordered = sorted(rows, key=lambda row: row[0])
    assert observed(ordered) == observed([row for row in ordered if row[0] <= now])
