"""A small fleet over a day: hourly rates after a pool of production, and the schedule of them, made in two seconds."""

from functools import cache
from pathlib import Path

from planner import pipeline
from planner.domain import Scenario
from planner.domain.changes import ChangeSettings
from planner.domain.schedules import RateSeries, RateWindow, Schedule, Tariff
from planner.files import load_rates, scenario_from_document
from planner.replanning.schedules.scheduling import best_schedule
from planner.workload import summarize

RATES = Path(__file__).parent / "servegen/rates_excerpt.csv"
PEAK_RPS = 32.0
SMALL_FLEET = """\
name: small-fleet
model: gpt-oss-120b
workload: normal-500-2000
inventory: {H20: 16}
prices_usd_per_gpu_hour: {H20: 1}
ranges: {width: 4096}
slo: {ttft_ms: 4000, tpot_ms: 60, percentile: 99}
search: {timings: false}
"""


def hourly(peak_rps: float = PEAK_RPS) -> RateSeries:
    """The day of deepseek-r1: the highest rate of each hour, scaled to a peak."""
    day = load_rates(RATES, "deepseek-r1")
    highest = [max(day.rates_rps[hour : hour + 6]) for hour in range(0, 144, 6)]
    windows = tuple(
        RateWindow(start_s=3600.0 * hour, rate_rps=rate * peak_rps / max(highest)) for hour, rate in enumerate(highest)
    )
    return RateSeries(name="deepseek-r1", window_s=3600.0, windows=windows)


@cache
def small_fleet() -> Scenario:
    """Sixteen H20 GPUs at 1 USD/hour."""
    document = {
        "name": "small-fleet",
        "model": "gpt-oss-120b",
        "workload": "normal-500-2000",
        "inventory": {"H20": 16},
        "prices_usd_per_gpu_hour": {"H20": 1},
        "ranges": {"width": 4096},
        "serving": "split",
        "slo": {"ttft_ms": 4000, "tpot_ms": 60, "percentile": 99},
        "search": {"timings": False},
    }
    return scenario_from_document(document, origin="small fleet", base=Path(), summarize=summarize)


@cache
def small_schedule() -> Schedule:
    """Its day with at most four changes."""
    return best_schedule(small_fleet(), hourly(), Tariff(), ChangeSettings(), 4, planner=pipeline.plan)
