"""What README and guide say that mixing GPU types is worth, held against the raw results of `planner study mixes`."""

import csv
import re

import pytest
from documentation import README, ROOT, TEXTS

from planner.studies.chapter5.experiments import CODE, CONVERSATION, FLEETS
from planner.studies.chapter5.mixes.study import DRAWS, PARTS, SEMANTICS, fleet_rates, fleets_of, worths

RAW = ROOT / "planner/studies/chapter5/results/mixes.csv"
FLAT, GUIDE = (" ".join(text.split()) for text in (README, TEXTS["results"]))
PLAIN, LEVELS = (semantics.name for semantics in SEMANTICS[1:])
MIX, BEST = "64 H200, 64 H800, 128 H20", "**best choice**"
TRACES = (CODE, CONVERSATION)

Row = dict[str, str]


def raw() -> list[Row]:
    with RAW.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def row(fleet: str, semantics: str, trace: str) -> Row:
    """Of a fleet of the grid, or of what the best choice takes."""
    chosen = str(fleet == BEST)
    (found,) = (
        r for r in raw()
        if (r["semantics"], r["trace"], r["chosen"]) == (semantics, trace, chosen) and fleet in (BEST, r["fleet"])
    )  # fmt: skip
    return found


def ratio(fleet: str, semantics: str, trace: str) -> str:
    return f"{float(row(fleet, semantics, trace)['ratio']):.2f}"


def band(fleet: str, semantics: str, trace: str) -> str:
    found = row(fleet, semantics, trace)
    return f"{float(found['low']):.2f}–{float(found['high']):.2f}"


def odds(fleet: str, trace: str) -> str:
    return f"{100 * float(row(fleet, LEVELS, trace)['odds']):.0f} %"


def sure(fleet: str, semantics: str, trace: str) -> str:
    return f"{float(row(fleet, semantics, trace)['sure_rps']):.0f}"


def test_the_raw_results_have_every_fleet_in_every_semantics() -> None:
    labels = {fleet.label for fleet in fleets_of(PARTS)}
    for trace in TRACES:
        for semantics in SEMANTICS:
            found = [r for r in raw() if (r["trace"], r["semantics"].strip()) == (trace, semantics.name)]
            assert {r["fleet"] for r in found if r["chosen"] == "False"} == labels
            assert len(found) == len(labels) + 1
            rival = max((r for r in found if r["fleet"] in labels and "," not in r["fleet"]), key=_rate)
            assert {r["rival"] for r in found} == {rival["fleet"]}
            for r in found:
                assert float(r["ratio"]) == pytest.approx(_rate(r) / _rate(rival), rel=1e-5)
                assert _rate(r) <= 1.0001 * float(r["bound_rps"])


def _rate(found: Row) -> float:
    return float(found["rate_rps"])


def test_the_table_of_mixes_is_the_raw_one() -> None:
    told = TEXTS["results"][TEXTS["results"].index("<!-- mixes -->") :]
    rows = re.findall(r"^\| ([^:|]+) \| (.*) \|$", told[: told.index("The rival is")], re.MULTILINE)[1:]
    assert [name for name, _ in rows] == [*(fleet.label for fleet in fleets_of(PARTS)), BEST]
    for name, cells in rows:
        assert cells.split(" | ") == [_cell(name, semantics.name, trace) for semantics in SEMANTICS for trace in TRACES]


def _cell(fleet: str, semantics: str, trace: str) -> str:
    if semantics == SEMANTICS[0].name:
        return ratio(fleet, semantics, trace)
    return f"{ratio(fleet, semantics, trace)} ({band(fleet, semantics, trace)}; {sure(fleet, semantics, trace)})"


def test_the_readme_tells_what_mixing_is_worth() -> None:
    reference = SEMANTICS[0].name
    free = [ratio(BEST, reference, trace) for trace in TRACES]
    assert f"The best choice for that rent serves {free[0]} and {free[1]} times what the best uniform fleet" in FLAT
    assert [row(MIX, name, trace)["rival"] for name in (PLAIN, LEVELS) for trace in TRACES] == ["256 H800"] * 4
    without = [row(fleet.label, PLAIN, trace) for fleet in fleets_of(PARTS) for trace in TRACES]
    assert max(float(r["ratio"]) for r in without) == 1
    assert f"without levels none of {len(fleets_of(PARTS))} fleets serves more" in FLAT
    taken = [row(BEST, LEVELS, trace)["fleet"] for trace in TRACES]
    worth, bands, ahead, mix = (
        [word(trace) for trace in TRACES]
        for word in (
            lambda trace: ratio(BEST, LEVELS, trace),
            lambda trace: band(BEST, LEVELS, trace),
            lambda trace: odds(BEST, trace),
            lambda trace: ratio(MIX, LEVELS, trace),
        )
    )
    assert (
        f"With P99 levels of {SEMANTICS[2].ttft_ms / 1000:.0f} s and {SEMANTICS[2].tpot_ms:.0f} ms the best choice "
        f"serves {worth[0]} times as much on code ({taken[0]}; P10–P90 of the ratio {bands[0]}; more in {ahead[0]} of "
        f"the draws) and {worth[1]} on conversation ({taken[1]}; {bands[1]}; {ahead[1]}), the paper's mix {mix[0]} and "
        f"{mix[1]}." in FLAT
    )
    best, lone = ([sure(fleet, LEVELS, trace) for trace in TRACES] for fleet in (BEST, "256 H800"))
    assert f"80 % sure are {best[0]} and {best[1]} requests/s, of 256 H800 {lone[0]} and {lone[1]}" in FLAT


def test_the_guide_tells_what_was_run() -> None:
    fleets = fleets_of(PARTS)
    assert f"{len(fleets)} fleets, of which three are of one type and three the paper's" in GUIDE
    assert sum(fleet.is_uniform for fleet in fleets) == len(FLEETS) == 3
    assert PARTS == 4
    assert f"all fleets meet the same {DRAWS} draws" in GUIDE
    assert (SEMANTICS[2].ttft_ms, SEMANTICS[2].tpot_ms) == (4000, 60)


def test_the_guide_tells_what_mixing_buys() -> None:
    assert {row(MIX, semantics.name, trace)["rival"] for semantics in SEMANTICS for trace in TRACES} == {
        "256 H800", "128 H200",
    }  # fmt: skip
    assert row(MIX, SEMANTICS[0].name, CONVERSATION)["rival"] == "128 H200"
    rates = {trace: row(BEST, LEVELS, trace) for trace in TRACES}
    assert rates[CONVERSATION]["fleet"] == "192 H800, 128 H20"
    assert f"than any fleet of one type, in {odds(BEST, CONVERSATION)} of the draws" in GUIDE
    assert f"on code {' and '.join(rates[CODE]['fleet'].split(', '))} serve as much as 256 H800" in GUIDE
    assert f"ahead in {odds(BEST, CODE)}" in GUIDE
    gains = [
        f"{100 * (float(rates[t]['sure_rps']) / float(row('256 H800', LEVELS, t)['sure_rps']) - 1):.0f}" for t in TRACES
    ]
    assert f"is higher, by {gains[1]} and {gains[0]} %" in GUIDE


@pytest.mark.study
def test_fleets_of_one_type_and_the_best_choice_come_out_again() -> None:
    """With levels on conversation, bands and all: a fleet's draws do not depend on who else is priced."""
    semantics = SEMANTICS[2]
    for worth in worths(fleet_rates(CONVERSATION, semantics, parts=1, draws=DRAWS, seed=0)):
        told = row(BEST if worth.rate.fleet.chosen else worth.rate.fleet.label, semantics.name, CONVERSATION)
        found = (worth.rate.rate_rps, worth.ratio, worth.low, worth.high, worth.sure_rps)
        assert found == pytest.approx(
            [float(told[name]) for name in ("rate_rps", "ratio", "low", "high", "sure_rps")], rel=0.01
        )
