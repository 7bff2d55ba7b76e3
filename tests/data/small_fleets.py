"""A fleet of two small models on four nodes, planned once a process: five seconds of work."""

from dataclasses import replace
from functools import cache
from pathlib import Path

import yaml

from planner import pipeline
from planner.domain.fleets import FleetPlan
from planner.domain.schedules import RateSeries, RateWindow
from planner.files.scenario.fleets import fleet_from_document
from planner.workload import summarize

FLEET = """\
name: company
inventory: {H200: 16, H20: 16}
prices_usd_per_gpu_hour: {H200: 4, H20: 1}
workload: azure-conv-2023
slo: {ttft_ms: 1000, tpot_ms: 30, percentile: 95}
services:
  - {name: chat, model: qwen3-30b-a3b-fp8, demand: 20}
  - {name: oss, model: gpt-oss-20b, demand: 20}
  - {name: nightly, model: gpt-oss-20b, slo: {}, batch: {tokens_a_day: 1000000000}}
"""


@cache
def small_fleet() -> FleetPlan:
    """The plan of that fleet."""
    document = yaml.safe_load(FLEET)
    fleet = fleet_from_document(document, origin="the tests", base=Path.cwd(), summarize=summarize)
    return pipeline.plan_fleet(fleet)


def curved_fleet() -> FleetPlan:
    """The same, the first service's demand the highest of a day's curve."""
    planned = small_fleet()
    rates = (5.0, 5.0, 5.0, 20.0, 11.0, 5.0)
    windows = tuple(RateWindow(start_s=14_400.0 * k, rate_rps=rate) for k, rate in enumerate(rates))
    series = RateSeries(name="day", window_s=14_400.0, windows=windows)
    first, *others = planned.fleet.services
    return replace(planned, fleet=replace(planned.fleet, services=(replace(first, rates=series, weight=2.5), *others)))
