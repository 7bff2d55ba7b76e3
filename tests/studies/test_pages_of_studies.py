"""Pages of every study: their numbers, their charts, opened in Chromium once."""

import pytest
from asi_trace import write_trace
from page_checks import check_charts, check_opening, check_words
from study_outcomes import outcome, study
from test_policy_report import run as policy_run
from test_preemption_report import FULL, SETTINGS
from test_preemption_report import count as hit_count
from test_serving_report import POOL, run_of
from test_spot_report import CURVE, LIMITS, results

from planner.domain import VictimMethod
from planner.report.kit.html.written import page_of
from planner.report.kit.plots import chart_of
from planner.studies.asi.page import asi_page, asi_plots
from planner.studies.asi.study import study_trace
from planner.studies.chapter5.report.page import study_page
from planner.studies.chapter5.report.plots import chapter5_plots
from planner.studies.defragmentation.page import churn_page, churn_plots
from planner.studies.defragmentation.study import run_churn
from planner.studies.defragmentation.workload import ChurnWorkload, DefragmentationStudy
from planner.studies.policies.page import policies_page
from planner.studies.policies.paper import paper_page
from planner.studies.policies.plots import policy_plots, trace_plots
from planner.studies.preemption.page import preemption_page
from planner.studies.preemption.plots import preemption_plots
from planner.studies.preemption.records import SourcingLatency
from planner.studies.serving.page import serving_page
from planner.studies.serving.plots import serving_plots
from planner.studies.serving.records import ServingSettings
from planner.studies.spot.page import spot_page
from planner.studies.spot.plots import spot_plots

NAMES = ("asi", "chapter5", "defragmentation", "policies", "preemption", "pwr", "queue", "spot")


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Markdown and plots by name."""
    churn = DefragmentationStudy(
        workload=ChurnWorkload(nodes=8, days=1, warm_up_days=0.25), every_hours=(None, 12.0), seeds=(0,), exact_seeds=()
    )
    runs = list(run_churn(churn))
    traces = {"multigpu20": {"fgd": [policy_run("fgd", 5, 100)], "pwr": [policy_run("pwr", 8, 80)]}}
    hits = [hit_count(20), hit_count(50, method=VictimMethod.MASKS)]
    times = [_latency(VictimMethod.STANDARD, 900.0), _latency(VictimMethod.MASKS, 120.0)]
    queued = [run_of("baseline"), run_of("rr-deadline")]
    trace = study_trace(write_trace(tmp_path_factory.mktemp("asi")))
    chapter5 = study(["5.5"], outcome("batch size", {2.0: [[500, 600], [550, 700]], 4.0: [[510, 800], [520, 790]]}))
    spot = results(points=CURVE, answers=(), limits=LIMITS)
    texts = {
        "asi": (asi_page(trace, {}), asi_plots(trace)),
        "chapter5": (study_page(chapter5), chapter5_plots(chapter5)),
        "defragmentation": (churn_page(churn, runs, []), churn_plots(runs)),
        "policies": (
            policies_page(traces["multigpu20"], "fgd", name="t", figures={}),
            policy_plots(traces["multigpu20"], "fgd"),
        ),
        "preemption": (preemption_page(hits, times, SETTINGS), preemption_plots(hits, times)),
        "pwr": (paper_page(traces, (1,), ()), trace_plots(traces, "fgd")),
        "queue": (
            serving_page(queued, POOL, ServingSettings(), name="q"),
            serving_plots(queued),
        ),
        "spot": (spot_page(spot), spot_plots(spot)),
    }
    return {name: (page_of(text, [*map(chart_of, plots)], "m"), plots) for name, (text, plots) in texts.items()}


def _latency(method: VictimMethod, p50_us: float) -> SourcingLatency:
    return SourcingLatency(
        nodes=100,
        workload="B",
        method=method,
        p50_us=p50_us,
        p90_us=1.5 * p50_us,
        repetitions=3,
        initial=FULL,
        mode=SETTINGS.modes[0],
        p50_sets=None,
        p90_sets=None,
    )


@pytest.mark.parametrize("name", NAMES)
def test_charts_are_plotlys_and_bring_their_numbers(pages, name):
    check_charts(*pages[name])


@pytest.mark.parametrize("name", NAMES)
def test_no_word_and_no_row_of_the_report_is_lost(pages, name):
    check_words(pages[name][0])


def test_all_of_them_open_without_a_complaint(pages, tmp_path):
    check_opening(pages, tmp_path)
