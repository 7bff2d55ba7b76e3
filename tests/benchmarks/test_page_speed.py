"""How soon a page can be used: made, opened, its charts drawn; the bytes that it has."""

import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from opened_pages import NARROW, WIDE, opened, started_browser

from planner.domain import Inventory
from planner.files import load_scenario, shipped_scenarios
from planner.pipeline import plan
from planner.runs.pages import plan_html
from planner.workload import summarize

pytestmark = pytest.mark.bench

MOST_OF_THE_PLAN = 0.2  # CPU-seconds of a page over those of its plan
OPENINGS = 5


def test_a_page_costs_little_beside_its_plan_and_is_soon_drawn(tmp_path: Path) -> None:
    """Wall times are told, not asserted: they depend on the machine and on who else uses it."""
    scenario = load_scenario(shipped_scenarios()["mixed-fleet"], summarize)
    start = time.process_time()
    planned = plan(scenario)
    of_plan = time.process_time() - start
    plan_html(planned)  # imports and first use
    start = time.process_time()
    content = plan_html(planned)
    of_page = time.process_time() - start
    path = tmp_path / "report.html"
    path.write_bytes(content)
    with started_browser() as browser:
        times = {width: [_drawn_ms(browser, path, width) for _ in range(OPENINGS)] for width in (WIDE, NARROW)}
    words = "; ".join(f"{w} px {min(ms):.0f} to {max(ms):.0f} ms" for w, ms in times.items())
    share = f"{of_page:.3f} CPU-s ({of_page / of_plan:.3f} of its plan's)"
    sys.stdout.write(f"\npage: {len(content):,} bytes, {share}; drawn in {words}\n")
    assert of_page <= MOST_OF_THE_PLAN * of_plan


def test_ten_times_the_fleet_costs_no_larger_page(tmp_path: Path) -> None:
    scenario = load_scenario(shipped_scenarios()["mixed-fleet"], summarize)
    items = tuple(replace(item, count=10 * item.count) for item in scenario.inventory.items)
    sizes = [len(plan_html(plan(s))) for s in (scenario, replace(scenario, inventory=Inventory(items=items)))]
    sys.stdout.write(f"\npages of 256 and 2,560 GPUs: {sizes[0]:,} and {sizes[1]:,} bytes\n")
    assert sizes[1] <= 1.1 * sizes[0]


def _drawn_ms(browser: object, path: Path, width: int) -> float:
    with opened(browser, path, width) as seen:
        return seen.interactive_ms()
