"""Figures in the guide of the studies that follow from a table, from arithmetic, or from a study run anew."""

import re
from itertools import groupby
from math import inf
from statistics import fmean

import pytest

from planner.cli.docs.markdown_pages import guide_text
from planner.studies.defragmentation.claims import CHURN, FEWER_PERCENT, over_time
from planner.studies.papers.results import ResultsFolder
from planner.studies.papers.study import FOLDER, RESULTS
from planner.studies.policies.claims import EQUATION, TABLES, TRIES, curves_of, last_above, ours_of
from planner.studies.policies.paper import COMBINATIONS, STATEMENTS
from planner.studies.preemption.claims import Rows, hit_percent, saved_percent
from planner.studies.preemption.records import SCALED_UP
from planner.studies.spot.claims import (
    BASELINE,
    COUNTED,
    HARVEST,
    LOAD,
    MIXED,
    MORE,
    OURS,
    PAPER,
    POLICIES,
    SMALL,
    SUPPLY,
    change,
    of,
    words,
)
from planner.studies.spot.records import SpotNode
from planner.studies.spot.simulation.policies import RANDOM, SPOTGPU
from planner.studies.spot.study import SpotStudy, run_spot_study

TEXT = guide_text("studies")
STUDIES = " ".join(TEXT.split())
SPOT_FIGURES = ("spot_completion_mean_h", "lost_gpu_h", "hp_completion_mean_h")


def row(text: str, head: str) -> list[float]:
    """The figures of a table's row."""
    found = re.search(rf"^\| {re.escape(head)} \|(.*)\|$", text, re.MULTILINE)
    assert found is not None, head
    return [float(cell) for cell in re.findall(r"[\d.]+", found[1])]


def test_sets_of_victims_are_counted_as_told() -> None:
    naive, imp = ([tried(m) for m in range(9)] for tried in (lambda m: 2**m - 1, lambda m: m + m * (m - 1) // 2))
    saved = f"{100 * (1 - imp[8] / naive[8]):.0f} %"
    assert f"m = 8, nodes of D alone, takes {imp[8]} instead of {naive[8]} ({saved})" in STUDIES
    assert f"four C pods a node are {imp[4]} sets instead of {naive[4]}" in STUDIES
    assert "naive tries 2^m − 1 sets, IMP m + m(m − 1)/2" in STUDIES


def test_defragmentation_is_told_as_its_raw_results_have_it() -> None:
    """The table and the sentences above it, from the study's own CSV."""
    rows = ResultsFolder(FOLDER / "defragmentation" / RESULTS).table(CHURN)
    by_rhythm = [[row for row in rows if row["every_hours"] == every] for every in ("", "24", "6", "1")]

    def means(name: str) -> list[float]:
        return [fmean(float(row[name] or 0) for row in group) for group in by_rhythm]

    assert {row["hours"] for row in rows} == {str(6 * 24)}
    empty, moves, vacated = means("empty"), means("moves"), means("vacated")
    a_node_hour = [move / (144 * (free - empty[0])) for move, free in zip(moves[1:], empty[1:], strict=True)]
    reduced = means("reduction_percent")[1:]
    for head, figures, digits in (
        ("nodes with an idle GPU", means("not_full"), 1),
        ("requests of 8 GPUs that could be placed", means("placeable"), 1),
        ("nodes with an idle GPU, fewer by one run, %", reduced, 1),
        ("nodes vacated", vacated, 0),
        ("moves", moves, 0),
        ("moves for each node-hour freed", a_node_hour, 2),
    ):
        assert row(TEXT, head) == [round(figure, digits) for figure in figures], head
    assert f"leaves {over_time(rows, '24'):.1f} % fewer nodes with an idle GPU on average over the hours" in STUDIES
    assert f"one an hour {over_time(rows, '1'):.0f} %, at {moves[-1] / vacated[-1]:.1f} moves a vacated node" in STUDIES
    assert f"has lowered their number by {reduced[0]:.1f} % (ASI paper: {FEWER_PERCENT} %)" in STUDIES


def test_power_savings_are_told_as_their_raw_results_have_them() -> None:
    """Every figure of the table, and what is said below it of the two traces that fall short."""
    results = ResultsFolder(FOLDER / "policies" / RESULTS)
    curves = {key: c for name in set(TABLES.values()) for key, c in curves_of(results.table(name)).items()}

    def ours(figure: int, trace: str, end: int) -> list[float]:
        """Of the mixtures, lightest first."""
        return [
            ours_of(statement, curves)
            for statement in STATEMENTS
            if (statement.figure, statement.trace, statement.end) == (figure, trace, end)
            and statement.policy in COMBINATIONS
        ]

    cells = [re.split(r" *\| *", line)[-2] for line in TEXT.splitlines() if re.match(r"\| (3|4|5|6|8|9|10) \|", line)]
    assert cells == [
        f"{min(ours(3, 'default', 80)):.1f} %, {min(ours(3, 'default', 90)):.1f} %",
        f"{min(ours(4, 'gpushare100', 70)):.1f} %, {min(ours(4, 'gpushare100', 80)):.1f} %",
        f"{', '.join(f'{value:.1f}' for value in ours(5, 'multigpu20', 82))} %",
        f"{', '.join(f'{value:.1f}' for value in ours(5, 'multigpu50', 90))} %",
        f"{', '.join(f'{value:.1f}' for value in ours(6, 'gpuspec10', 90))} %",
        f"{max(ours(8, 'gpushare40', 100)):.3f}, {max(ours(8, 'gpushare100', 100)):.3f}",
        f"{max(ours(9, 'multigpu20', 100)):.3f}",
        f"{max(ours(10, 'gpuspec10', 73)):.3f}",
        "{:.3f}; {:.3f}, {:.3f}".format(*ours(10, "gpuspec33", 100)),
    ]
    constrained = [s for s in STATEMENTS if s.figure == 6]
    saved = [curves[s.trace, s.policy].saved for s in constrained]
    until = [last_above(s, curve) for s, curve in zip(constrained, saved, strict=True)]
    assert "until {}, {} and {} % of the capacity".format(*until) in STUDIES
    light, _, heavy = ours(5, "multigpu50", 90)
    assert f"fall short by {4 - light:.1f} and {7 - heavy:.1f} points" in STUDIES
    by_equation = {
        policy: {int(row["arrived_percent"]): float(row["saved"]) for row in group}
        for policy, group in groupby(
            (row for row in results.table(EQUATION) if row["trace"] == "multigpu50"), lambda row: row["policy"]
        )
    }
    (heaviest,) = (s for s in STATEMENTS if (s.trace, s.policy) == ("multigpu50", COMBINATIONS[2]))
    least = min(value for at, value in by_equation[COMBINATIONS[0]].items() if 15 <= at <= 90)
    reached = last_above(heaviest, by_equation[COMBINATIONS[2]])
    assert f"0.2 saves more than 7 % until {reached} %, and 0.05 at least {least:.1f} %" in STUDIES
    tries = {(row["what"], row["policy"]): float(row["least_saved"]) for row in results.table(TRIES)}
    (exact,) = (value for (what, policy), value in tries.items() if "exact" in what and policy == COMBINATIONS[0])
    assert f"(`--semantics exact`) 0.05 saves at least {exact:.1f} %" in STUDIES
    others = [value for (what, policy), value in tries.items() if "exact" not in what and policy != COMBINATIONS[1]]
    assert len(others) == 6
    bounds = {COMBINATIONS[0]: 4, COMBINATIONS[1]: inf, COMBINATIONS[2]: 7}
    assert all(value < bounds[policy] for (what, policy), value in tries.items() if "exact" not in what)


PREEMPTION = ResultsFolder(FOLDER / "preemption" / RESULTS)


def pair(rows: Rows, workload: str, kind: str) -> str:
    return ", ".join(f"{saved_percent(rows, workload, f'{quantile}_{kind}'):.1f}" for quantile in ("p50", "p90"))


@pytest.mark.parametrize(
    ("name", "head"),
    [
        ("table_5_packed_left", "packed | what those before left"),
        ("table_5_packed_full", "packed | the full cluster"),
        ("table_5_spread_left", "spread | what those before left"),
        ("table_5_saturated_left", "saturated | what those before left"),
    ],
)
def test_table_5_is_told_as_its_runs_have_it(name: str, head: str) -> None:
    rows = PREEMPTION.table(name)
    cells = [f"{pair(rows, workload, 'sets')} % ({pair(rows, workload, 'us')})" for workload in SCALED_UP]
    assert f"| {head} | {' | '.join(cells)} |" in TEXT.replace("**", "")


def test_what_agrees_with_table_4_is_told_as_its_runs_have_it() -> None:
    full = PREEMPTION.table("table_5")
    times = sorted(saved_percent(full, "C", f"{quantile}_us") for quantile in ("p50", "p90"))
    sets = [saved_percent(full, "C", f"{quantile}_sets") for quantile in ("p50", "p90")]
    assert f"saves {times[0]:.0f} to {times[1]:.0f} % at either" in STUDIES
    assert f"(of the sets tried, {sets[0]:.0f} and {sets[1]:.0f})" in STUDIES
    packed = PREEMPTION.table("table_4_packed")
    total = sum(int(cells["preemptions"]) for cells in packed)
    assert f"standard preemption hits {hit_percent(packed):.1f} % (of {total:,}), not 44.5" in STUDIES


SPOT = ResultsFolder(FOLDER / "spot" / RESULTS)


def test_the_spot_table_is_told_as_its_runs_have_it() -> None:
    rows = SPOT.table(POLICIES)
    ours, theirs = (of(rows, "all_percent", policy).mean for policy in (OURS, BASELINE))
    changes = [
        f"{one.mean:+.{digits}f} ± {one.half:.{digits}f} %"
        for name, digits in zip(SPOT_FIGURES, (1, 1, 2), strict=True)
        for one in (change(rows, name),)
    ]
    load = f"{100 * float(LOAD):g} % of the GPUs"
    assert f"| {load} | {ours:.1f} % ({theirs:.1f} %) | {' | '.join(changes)} |" in TEXT


@pytest.mark.parametrize(
    ("head", "name", "policy", "load", "table"),
    [
        ("defaults, of the GPU-hours", HARVEST, OURS, LOAD, SUPPLY),
        ("Counting: as the published scripts do", COUNTED, OURS, LOAD, SUPPLY),
        ("so counted, Supply: spot jobs ask for 40 % of the GPUs", COUNTED, OURS, MORE, SUPPLY),
        ("so counted, Co-location: spot jobs beside guaranteed pods", COUNTED, MIXED, LOAD, SUPPLY),
        ("so counted, Sizes: spot jobs of 1 GPU", COUNTED, OURS, LOAD, SMALL),
        ("so counted, both of these", COUNTED, MIXED, LOAD, SMALL),
        ("so counted, the paper's servers, lent share and sizes", COUNTED, OURS, LOAD, PAPER),
        ("the same, spot jobs ask for 40 %", COUNTED, OURS, MORE, PAPER),
        ("the same, beside guaranteed pods", COUNTED, MIXED, MORE, PAPER),
    ],
)
def test_what_is_used_of_lent_gpus_is_told_as_its_runs_have_it(
    head: str, name: str, policy: str, load: str, table: str
) -> None:
    rows = SPOT.table(table)
    used, given_out = of(rows, name, policy, load), of(rows, "all_percent", policy, load)
    assert used.count == 5
    assert f"| {head} | {words(used)} | {given_out.mean:.1f} % |" in TEXT


@pytest.mark.study
def test_the_spot_runs_come_out_again() -> None:
    nodes = tuple(SpotNode(name=f"node-{k}", gpus=8, cpus=192) for k in range(60))
    kept = {(row["policy"], row["spot_load"], row["seed"]): row for row in SPOT.table(POLICIES)}
    study = SpotStudy(nodes=nodes, policies=(SPOTGPU, RANDOM), seeds=(1,), loads=(float(LOAD),))
    for run in run_spot_study(study):
        for name in (*SPOT_FIGURES, HARVEST, COUNTED, "all_percent"):
            assert getattr(run.figures, name) == pytest.approx(float(kept[run.policy, LOAD, "1"][name]), rel=1e-6)
