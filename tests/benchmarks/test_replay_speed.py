"""How fast requests go through a replay, and that time and memory grow as their number. `make bench` prints all."""

import sys
import time

import pytest
from peak_memory import peak_mb
from replay_fleets import replayed

pytestmark = pytest.mark.bench

ISLANDS = 40
SMALL = 10_000
SMALL_AIM_S = 0.5
"""CPU time that is aimed at for `SMALL` requests; printed beside what came, as only ratios are asserted."""
LARGE_AIM_S, LARGE_AIM_MB = 60.0, 1000.0
"""The same for a million."""
MOST_GROWTH = 1.3
"""Times by which a request of many may take longer than one of few: caches of the processor, longer heaps."""
MOST_PER_ISLAND = 2.0
"""Times by which a request may take longer where four times as many islands are chosen among."""


def show(line: str) -> None:
    sys.stdout.write(f"\n{line}\n")


def cpu_s(requests: int, islands: int = ISLANDS, repeats: int = 1) -> float:
    """The least of some."""
    seconds = []
    for _ in range(repeats):
        start = time.process_time()
        engine = replayed(requests, islands)
        seconds.append(time.process_time() - start)
        assert engine.finished == requests
    return min(seconds)


def test_time_grows_as_the_requests() -> None:
    few, many = cpu_s(SMALL, repeats=3), cpu_s(10 * SMALL)
    show(
        f"{SMALL:,} requests {few:.2f} CPU-s (aim {SMALL_AIM_S}), ten times as many {many:.2f}: {many / few:.1f} times"
    )
    assert many <= 10 * MOST_GROWTH * few


def test_time_grows_less_than_the_islands() -> None:
    few, many = (cpu_s(2 * SMALL, islands, repeats=2) for islands in (10, 40))
    show(f"{2 * SMALL:,} requests through 10 islands {few:.2f} CPU-s, through 40 {many:.2f}: {many / few:.1f} times")
    assert many <= MOST_PER_ISLAND * few


@pytest.mark.long
def test_a_million_requests() -> None:
    tenth = cpu_s(100_000)
    seconds = cpu_s(1_000_000)
    show(f"1,000,000 requests {seconds:.1f} CPU-s (aim {LARGE_AIM_S:.0f}), {seconds / tenth:.1f} times a tenth of them")
    assert seconds <= 10 * MOST_GROWTH * tenth


@pytest.mark.long
def test_memory_grows_as_the_requests() -> None:
    program = "from replay_fleets import replayed; replayed({}, 40)"
    empty, few, many = (peak_mb(program.format(count)) for count in (1, 100_000, 1_000_000))
    show(f"100,000 requests {few - empty:.0f} MB, 1,000,000 {many:.0f} MB (aim {LARGE_AIM_MB:.0f}) at the peak")
    assert many - empty <= 10 * MOST_GROWTH * (few - empty)
