"""CPU-seconds of whole plans of buckets as fleets grow, as ratios within one run."""

import sys
import time
from dataclasses import replace
from functools import cache
from itertools import pairwise

import pytest

from planner.domain import Inventory, Scenario, ServingForm
from planner.files import load_scenario, shipped_scenarios
from planner.pipeline import plan
from planner.workload import summarize

pytestmark = pytest.mark.bench

TIMES_LARGER = (1, 10, 100)
MOST_FOR_MIXED = 1.5  # times the CPU-seconds of a plan whose servers do one phase each
MOST = 2.0  # times the CPU-seconds of a tenth of the GPUs


def larger(times: float) -> Scenario:
    """The shipped mixed fleet, so many times as large."""
    scenario = load_scenario(shipped_scenarios()["mixed-fleet"], summarize)
    items = tuple(replace(item, count=int(item.count * times)) for item in scenario.inventory.items)
    return replace(scenario, inventory=Inventory(items=items))


@cache
def cpu_seconds(times: int) -> float:
    """Of one plan, the first of a size left out where it warms caches up."""
    scenario = larger(times)
    start = time.process_time()
    plan(scenario)
    return time.process_time() - start


def test_ten_times_the_gpus_cost_at_most_twice_the_time() -> None:
    plan(larger(0.5))  # imports and first use; of another fleet, as the prices of a plan are remembered
    seconds = [cpu_seconds(times) for times in TIMES_LARGER]
    ratios = [after / before for before, after in pairwise(seconds)]
    gpus = [sum(item.count for item in larger(times).inventory.items) for times in TIMES_LARGER]
    words = ", ".join(f"{n} GPUs {s:.1f} CPU-s" for n, s in zip(gpus, seconds, strict=True))
    sys.stdout.write(f"\nplans of buckets: {words}; ratios {', '.join(f'{ratio:.2f}' for ratio in ratios)}\n")
    assert max(ratios) <= MOST


@pytest.mark.long
def test_servers_of_both_phases_cost_at_most_half_as_much_again() -> None:
    plan(larger(0.5))
    seconds = {}
    for serving in (ServingForm.SPLIT, ServingForm.AUTO):
        start = time.process_time()
        plan(replace(larger(1), serving=serving))
        seconds[serving] = time.process_time() - start
    ratio = seconds[ServingForm.AUTO] / seconds[ServingForm.SPLIT]
    words = ", ".join(f"{serving.value} {cpu_s:.1f} CPU-s" for serving, cpu_s in seconds.items())
    sys.stdout.write(f"\nforms of serving: {words}; ratio {ratio:.2f}\n")
    assert ratio <= MOST_FOR_MIXED
