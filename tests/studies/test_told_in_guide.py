"""Figures in the guide of the studies that follow from a table, from arithmetic, or from a study run anew."""

import re

import pytest

from planner.cli.docs.markdown_pages import guide_text
from planner.studies.papers.results import ResultsFolder
from planner.studies.papers.study import FOLDER, RESULTS
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


def test_defragmentation_is_told_as_its_table_has_it() -> None:
    never, daily, _, hourly = row(TEXT, "nodes with an idle GPU")
    by_one_run = row(TEXT, "nodes with an idle GPU, fewer by one run, %")[0]
    vacated, moves = row(TEXT, "nodes vacated in the week"), row(TEXT, "moves in the week")
    assert f"lowers the number of nodes with an idle GPU by {by_one_run} % (ASI" in STUDIES
    assert f"on average over the hours it is {100 * (1 - daily / never):.1f} %" in STUDIES
    assert f"Every hour it is {100 * (1 - hourly / never):.0f} %, at {moves[-1] / vacated[-1]:.1f} moves" in STUDIES


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
