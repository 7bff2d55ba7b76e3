"""One colour a GPU type, in charts and in figures; times as a clock shows them."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from itertools import combinations, pairwise

import pytest
from hand_made_plan import gpu_spec
from hypothesis import given
from hypothesis import strategies as st

from planner import files
from planner.domain import InventoryItem
from planner.report.kit import style
from planner.report.kit.colours import INK, PALETTE, contrast, gpu_colour, legible
from planner.report.kit.html.charts import charts_json
from planner.report.kit.plots import Clock, Kind, Plot, Series, chart_of, clock_ticks, clock_words, held_series


def plot(*series: Series, **more: object) -> Plot:
    usual = {"name": "p", "title": "t", "says": "s", "kind": Kind.STEPS, "x": "x", "y": "y"}
    return Plot(series=series, **(usual | more))


def test_every_shipped_type_has_a_colour_of_its_own() -> None:
    colours = {gpu: gpu_colour(gpu) for gpu in files.load_gpu_specs()}
    assert len(set(colours.values())) == len(colours)
    assert not {gpu_colour(f"my-{gpu}") for gpu in colours} & set(colours.values())


def test_pages_and_figures_agree_whatever_stands_beside_a_type() -> None:
    with style.reproducible():
        for counts in ({"H800": 8}, {"H20": 8, "H800": 8}, {"H200": 8, "H800": 8, "my-gpu": 8}):
            figures = {gpu: style.type_colour(gpu) for gpu in counts}
            bars = plot(*(Series(name=gpu, x=("a",), y=(1.0,), gpu=gpu) for gpu in counts), kind=Kind.BARS)
            drawn = json.loads(charts_json([chart_of(bars)]))["p"]["data"]
            assert {trace["name"]: trace["marker"]["color"].lower() for trace in drawn} == {
                gpu: figures[gpu].lower() for gpu in counts
            }
            assert figures["H800"].lower() == gpu_colour("H800").lower()


@given(st.sampled_from(PALETTE), st.floats(1.0, 7.0))
def test_text_of_a_lines_colour_is_legible(colour: str, ratio: float) -> None:
    assert contrast(legible(colour, ratio=ratio), "#FFFFFF") >= ratio


def test_contrast_is_that_of_wcag() -> None:
    assert contrast("#000000", "#FFFFFF") == 21.0
    assert contrast("#777777", "#FFFFFF") == pytest.approx(4.48, abs=0.005)  # the known grey just below 4.5
    assert contrast(INK, INK) == 1.0


def test_steps_hold_to_the_last_edge_and_are_times() -> None:
    at_s = datetime(2026, 3, 1, 23, 30, tzinfo=UTC).timestamp()
    rent = held_series("rent", (at_s, at_s + 1800, at_s + 3600), (7.0, 8.0))
    chart = chart_of(plot(rent, clock=Clock.DATED, bounds=(("most", 9.0),)))
    assert chart.traces[0]["x"] == ["2026-03-01T23:30:00", "2026-03-02T00:00:00", "2026-03-02T00:30:00"]
    assert chart.traces[0]["y"] == [7.0, 8.0, 8.0]
    assert chart.traces[1]["x"] == ["2026-03-01T23:30:00", "2026-03-02T00:30:00"]
    assert chart.layout["xaxis"]["type"] == "date"
    assert chart.table.rows[0] == ("rent", "2026-03-01 23:30", 7.0)
    undated = chart_of(plot(held_series("rent", (0.0, 90000.0), (8.0,)), clock=Clock.DAYS))
    assert [row[1] for row in undated.table.rows] == ["day 1 00:00", "day 2 01:00"]


@given(st.integers(0, 10**9), st.integers(1, 60 * 86400))
def test_ticks_are_few_and_between_the_ends(first: int, span: int) -> None:
    ticks = clock_ticks(float(first), float(first + span))
    assert len(ticks) <= 9
    assert all(first <= tick <= first + span for tick in ticks)
    assert all(second - one == ticks[1] - ticks[0] for one, second in pairwise(ticks))
    if span >= 86400:
        assert len(ticks) >= 3
        assert all(clock_words(Clock.DAYS, tick)[1].endswith(":00") for tick in ticks)


def test_types_often_planned_together_differ_in_hue() -> None:
    first = [gpu_colour(gpu) for gpu in ("H200", "H20", "H800", "H100", "A100", "MI300X", "L40S", "DGX-B200")]
    assert sorted(first) == sorted(colour.lower() for colour in PALETTE)
    assert all(one != other for one, other in combinations(first, 2))


def test_an_estimated_price_is_one_only_as_long_as_nobody_gives_another() -> None:
    listed = files.load_gpu_spec("H20-3E")
    item = InventoryItem(gpu=listed, count=8, price_usd_per_gpu_hour=listed.price.usd_per_hour)
    assert item.price_estimated
    assert not replace(item, price_usd_per_gpu_hour=2.0).price_estimated
    assert not InventoryItem(gpu=gpu_spec("H200"), count=8, price_usd_per_gpu_hour=3.0).price_estimated
