"""The guide's tables of readings of table 5.1, held against the raw results of `planner study readings`."""

import csv

from planner.cli.docs.markdown_pages import guide_text
from planner.studies.chapter5.experiments import CODE, CONVERSATION, PUBLISHED
from planner.studies.chapter5.readings.command import reading_name
from planner.studies.chapter5.readings.records import MEANINGS, OURS, THESIS, Point
from planner.studies.chapter5.readings.study import CODE_SETTINGS, GAP, readings
from planner.studies.papers.study import FOLDER

TEXT = guide_text("studies")
FLAT = " ".join(TEXT.split())
CELLS = sorted(PUBLISHED, key=lambda cell: (cell[1], cell[0]))


def raw(name: str) -> list[dict[str, str]]:
    with (FOLDER / "chapter5" / "results" / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def table(mark: str) -> list[list[str]]:
    """The cells of each row, the head left out."""
    body = TEXT[TEXT.index(f"<!-- {mark} -->") :].split("\n\n")[0]
    return [[cell.strip() for cell in row.split("|")[1:-1]] for row in body.splitlines()[3:]]


def of_reading(name: str) -> dict[tuple[str, str], dict[str, str]]:
    return {(row["fleet"], row["trace"]): row for row in raw("readings") if row["reading"] == name}


def told(name: str) -> str:
    rows = of_reading(name)
    return ", ".join(f"{float(rows[cell]['rate_rps']):.0f}" for cell in CELLS)


def test_every_reading_is_in_the_raw_results_and_in_the_guide() -> None:
    assert {row["reading"] for row in raw("readings")} == {reading_name(reading) for reading in readings()}
    middle = [[MEANINGS[p], told(p.value), told(f"all but {p.value}")] for p in Point]
    ends = [
        ["nothing: reference mode", told(reading_name(OURS)), ""],
        ["everything", told(reading_name(THESIS)), ""],
    ]
    assert table("readings") == [ends[0], *middle, ends[1]]
    assert f"proven to {100 * GAP:g} %" in FLAT
    for row in raw("readings"):
        rate, bound = float(row["rate_rps"]), float(row["bound_rps"])
        assert rate <= bound * 1.0001
        assert bound <= rate * (1 + 2 * GAP)


def _given(cell: tuple[str, str]) -> list[dict[str, str]]:
    return [row for row in raw("given") if (row["fleet"], row["trace"]) == cell]


def _rate(row: dict[str, str]) -> float:
    return min(float(row["prefill_rps"]), float(row["decode_rps"]))


def _mean(values: list[float]) -> str:
    mean = sum(values) / len(values)
    return f"{mean:.1f} ± {max(abs(value - mean) for value in values):.1f}"


def test_the_thesis_own_layouts_come_out_as_told() -> None:
    assert {len(_given(cell)) for cell in CELLS} == {5}
    published = [[f"{PUBLISHED[cell][k]:g} ± {PUBLISHED[cell][k + 1]:g}" for cell in CELLS] for k in (0, 2)]
    rates = [_mean([_rate(row) for row in _given(cell)]) for cell in CELLS]
    deviations = [_mean([float(row["deviation_rps"]) for row in _given(cell)]) for cell in CELLS]
    rows = [published[0], rates, published[1], deviations]
    assert [row[1:] for row in table("given")] == rows
    words = f"`tau: {CODE_SETTINGS.tau:g}`, `deviation_weight: {CODE_SETTINGS.deviation_weight:g}`, `idle: false`"
    assert words in FLAT
    assert not CODE_SETTINGS.idle


def test_they_lie_within_the_printed_spreads_and_below_the_readings_optimum() -> None:
    """The formulation may stray from the mix by a tenth, so it may serve a little more than the whole mix."""
    best = of_reading(reading_name(THESIS))
    for cell in CELLS:
        rates = [_rate(row) for row in _given(cell)]
        mean, deviation = (sum(values) / 5 for values in (rates, [float(row["deviation_rps"]) for row in _given(cell)]))
        assert abs(mean - PUBLISHED[cell][0]) <= PUBLISHED[cell][1]
        assert abs(deviation - PUBLISHED[cell][2]) <= PUBLISHED[cell][3]
        assert max(rates) <= 1.1 * float(best[cell]["bound_rps"])


def test_what_the_guide_says_of_the_searches() -> None:
    best = of_reading(reading_name(THESIS))
    short = {
        trace: [100 * (1 - PUBLISHED[cell][0] / float(best[cell]["rate_rps"])) for cell in CELLS if cell[1] == trace]
        for trace in (CODE, CONVERSATION)
    }
    code, conversation = (f"{min(values):.0f} to {max(values):.0f} %" for values in short.values())
    assert f"end {code} below the best layout of their own reading on code, and {conversation} below it" in FLAT
    assert f"the best layouts of its {len(raw('given'))} searches" in FLAT


def test_on_code_a_sign_costs_most() -> None:
    """Of the points without which something serves, its absence leaves most on every fleet."""
    for cell in CELLS[:3]:
        assert cell[1] == CODE
        without = {point: float(of_reading(f"all but {point.value}")[cell]["rate_rps"]) for point in Point}
        assert max(without, key=lambda point: without[point]) is Point.WORST
