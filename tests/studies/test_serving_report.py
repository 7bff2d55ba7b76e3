"""The serving study's figures and page: what they show of runs that were written by hand."""

import numpy as np
import pytest

from planner.errors import InputError
from planner.studies.serving.measures import figures_of
from planner.studies.serving.page import FINDINGS, ROWS, comparisons, means_of, serving_page
from planner.studies.serving.plots import SERVING_FIGURES, numbers_of, serving_figure
from planner.studies.serving.policies.named import POLICIES
from planner.studies.serving.records import MachineType, ServingPool, ServingRequest, ServingSettings
from planner.studies.serving.simulation.run import simulate_serving
from planner.studies.serving.study import ServingSeedRun
from planner.studies.serving.warsaw import MACHINE, dnn_models

POOL = ServingPool(types=(MachineType(name=MACHINE, machines=2),), models=dnn_models())
ASKED = tuple(ServingRequest(arrival_s=float(2 * k), model=k % 3) for k in range(60))


def run_of(policy: str) -> ServingSeedRun:
    run = simulate_serving(POOL, ASKED, policy, seed=1)
    return ServingSeedRun(policy=policy, seed=1, run=run, figures=figures_of(run, POOL))


def test_the_thesis_figures_are_all_there() -> None:
    listed = [row.number for row in SERVING_FIGURES]
    assert listed == [f"5.{k}" for k in range(2, 8)] + [f"6.{k}" for k in range(1, 16)]
    assert {policy for row in SERVING_FIGURES for policy in row.policies} == set(POLICIES)
    assert {policy for row in FINDINGS for policy in (row.less, row.more)} == set(POLICIES)


def test_figures_need_their_policies() -> None:
    runs = [run_of("baseline"), run_of("rr")]
    assert [row.number for row in numbers_of(runs)] == [
        *("5.2", "5.3", "5.4", "5.5", "5.6", "5.7", "6.3", "6.14", "6.15"),
    ]
    with pytest.raises(InputError, match=r"got '6\.12'"):
        serving_figure("6.12", runs, POOL)
    with pytest.raises(InputError, match="from 0 to 1, got 2"):
        serving_figure("6.3", runs, POOL, machine=2)


def test_figures_show_the_runs() -> None:
    runs = [run_of("baseline"), run_of("rr-deadline")]
    bars = serving_figure("5.2", runs, POOL).axes[0].patches
    assert [bar.get_height() for bar in bars] == [30, 30]
    axes = serving_figure("5.4", runs, POOL).axes[0]
    seconds, percent = axes.lines[0].get_data()
    completion_s = runs[0].run.requests.finish_s - runs[0].run.requests.arrival_s
    assert np.asarray(seconds) == pytest.approx(np.sort(completion_s))
    assert (percent[0], percent[-1]) == (pytest.approx(100 / 60), 100)
    assert axes.get_xscale() == "log"
    lengths = [bar.get_width() for bar in serving_figure("6.15", runs, POOL).axes[0].patches]
    assert lengths == pytest.approx([run.figures.load_s for run in runs])
    gantt = serving_figure("5.7", runs, POOL).axes[0]
    assert [label.get_text() for label in gantt.get_yticklabels()] == [model.name for model in POOL.models]
    assert len(gantt.collections) >= 4


def test_the_page_says_what_the_thesis_found_and_whether_it_holds() -> None:
    runs = [run_of("baseline"), run_of("clockwork")]
    page = serving_page(runs, POOL, ServingSettings(), figures={"a": "b.png"})
    assert page.startswith("# Many models on one pool\n\n2 machines of 1 type, 9 models, 60 requests")
    for _, words in ROWS:
        assert f"| {words} |" in page
    rows = comparisons(means_of(runs))
    assert [row.finding.words for row in rows] == [
        row.words for row in FINDINGS if {row.less, row.more} == {"baseline", "clockwork"}
    ]
    for row in rows:
        assert row.holds == (row.less < row.more)
        assert row.finding.words in page
    assert "![a](b.png)" in page
    alone = serving_page(runs[:1], POOL, ServingSettings())
    assert "The thesis' findings" not in alone
