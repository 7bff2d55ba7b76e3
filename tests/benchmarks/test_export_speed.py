"""CPU-seconds of an export with its checks: how they grow with the islands."""

import sys
import time

import pytest

from planner.domain import (
    PHASES,
    Inventory,
    InventoryItem,
    LengthProfile,
    ParallelConfig,
    Phase,
    Plan,
    PlannedIsland,
    Provenance,
    Route,
    Scenario,
    SearchRecord,
)
from planner.export import find_faults, render
from planner.files import load_gpu_specs, load_model

pytestmark = pytest.mark.bench

FEW, MANY = 15, 60
TIMES = 3


def fleet(count: int) -> Plan:
    """A plan of so many islands of a node each, every other one in prefill, with an even routing table."""
    gpu = load_gpu_specs()["H200"]
    islands = tuple(
        PlannedIsland(
            id=f"H200-{number}",
            gpu=gpu.name,
            size=8,
            phase=Phase.DECODE if number % 2 else Phase.PREFILL,
            parallel=ParallelConfig(tp=8, dp=1),
            batch_size=8,
            longest_prompt=4095,
            rate_rps=1.0,
            utilisation=0.5,
            price_usd_per_hour=1.0,
        )
        for number in range(count)
    )
    workload = LengthProfile(
        name="even",
        input_tokens=(1000, 3000),
        probabilities=(0.5, 0.5),
        output_tokens=(),
        mean_output_tokens=300.0,
        max_output_tokens=2000,
    )
    item = InventoryItem(gpu=gpu, count=8 * count, price_usd_per_gpu_hour=1.0)
    return Plan(
        scenario=Scenario(
            name="bench", model=load_model("deepseek-v3"), workload=workload, inventory=Inventory(items=(item,))
        ),
        throughput_rps=1.0,
        prefill_rps=1.0,
        decode_rps=1.0,
        objective_rps=1.0,
        deviation_rps=0.0,
        optimal=True,
        islands=islands,
        routing=_even(islands),
        search=SearchRecord(trials=(), best_trial=0),
        provenance=Provenance(
            planner_version="0",
            python_version="3",
            libraries=(),
            solver="",
            seed=0,
            cost_mode="default",
            input_hashes=(),
        ),
    )


def _even(islands: tuple[PlannedIsland, ...]) -> tuple[Route, ...]:
    return tuple(
        Route(
            phase=phase,
            range_start=start,
            range_end=start + 2048,
            probability=0.5,
            island=island.id,
            share=1 / len(serving),
            rate_rps=1.0,
            assigned_rps=1.0,
            capacity_rps=1.0,
            batch_size=8,
            step_ms=30.0,
        )
        for phase in PHASES
        for serving in [[one for one in islands if one.phase is phase]]
        for start in (0, 2048)
        for island in serving
    )


def cpu_seconds(plan: Plan, target: str) -> tuple[float, float]:
    """The fastest of a few: rendering with its own check, and the check alone."""
    taken: list[tuple[float, float]] = []
    for _ in range(TIMES):
        start = time.process_time()
        files = render(plan, target=target)
        middle = time.process_time()
        assert find_faults(files) == ()
        taken.append((middle - start, time.process_time() - middle))
    return min(one for one, _ in taken), min(other for _, other in taken)


@pytest.mark.parametrize(
    "target",
    [
        "lws",
        *(pytest.param(name, marks=pytest.mark.long) for name in ("kubernetes", "llm-d", "kserve", "dynamo", "script")),
    ],
)
def test_four_times_the_islands_take_about_four_times_as_long(target: str, capsys: pytest.CaptureFixture[str]) -> None:
    few, many = fleet(FEW), fleet(MANY)
    cpu_seconds(few, target)  # what is loaded once
    small, large = cpu_seconds(few, target), cpu_seconds(many, target)
    growth = [after / before for before, after in zip(small, large, strict=True)]
    with capsys.disabled():
        sys.stdout.write(
            f"\n{target}: {FEW} islands {small[0]:.2f} s, {MANY} islands {large[0]:.2f} s (x{growth[0]:.1f}); "
            f"check alone {small[1]:.2f} s, {large[1]:.2f} s (x{growth[1]:.1f})\n"
        )
    assert max(growth) < 2 * MANY / FEW
