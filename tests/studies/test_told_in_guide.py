"""Figures in the guide of the studies that follow from a table, from arithmetic, or from a study run anew."""

import re

import pytest

from planner.cli.docs.markdown_pages import guide_text
from planner.studies.papers.results import ResultsFolder
from planner.studies.papers.study import FOLDER, RESULTS
from planner.studies.preemption.claims import Rows, hit_percent, saved_percent
from planner.studies.preemption.records import SCALED_UP
from planner.studies.spot.capacity import change_of, mean_of
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


@pytest.mark.study
def test_the_spot_table_is_reached() -> None:
    """test_spot_study.py holds these changes to the published bounds each time."""
    body = TEXT[TEXT.index("<!-- spot -->") :]
    changes = r"((?: [-+][\d.]+ ± [\d.]+ % \|){3})"
    row = re.search(rf"^\| ([\d.]+) % of the GPUs \| ([\d.]+) % \(([\d.]+) %\) \|{changes}$", body, re.MULTILINE)
    study = SpotStudy(
        nodes=tuple(SpotNode(name=f"n{k}", gpus=8, cpus=192) for k in range(60)),
        policies=(SPOTGPU, RANDOM),
        seeds=(1, 2, 3, 4, 5),
        loads=(float(row[1]) / 100,),
    )
    runs = list(run_spot_study(study))
    ours, theirs = ([run for run in runs if run.policy == policy.name] for policy in study.policies)
    for runs_of, printed in ((ours, row[2]), (theirs, row[3])):
        held = mean_of(runs_of, "all_percent")
        assert held.mean == pytest.approx(float(printed), abs=_last_digit(printed))
    for name, (mean, half) in zip(SPOT_FIGURES, re.findall(r"([-+][\d.]+) ± ([\d.]+) %", row[4]), strict=True):
        found = change_of(ours, theirs, name)
        assert (found.mean, found.half) == pytest.approx((float(mean), float(half)), abs=_last_digit(mean))


def _last_digit(printed: str) -> float:
    """A little more than half a unit of the last digit."""
    return 0.6 * 10.0 ** -len(printed.partition(".")[2])
