"""Sizes of host memory and pools, chosen together, against every pool with every size on twenty small fleets.

All twenty agree; they take minutes, so the suite looks at those of `LOOKED_AT`. The others: `range(20)` in their place.
"""

from typing import Any

import pytest
from pipeline_scenarios import bucketed

from planner.domain.objective import ObjectiveKind
from planner.evaluation.evaluator import Evaluator
from planner.pipeline import plan
from planner.workload import question_of

from pipeline.test_enumerated_pools import GAP, PRICES, best_of_all  # isort: skip

SIZES = (0, 60, 400)
LENGTHS = "input_tokens,probability\n600,0.5\n3000,0.3\n7000,0.2\n"
SHARES = "from,prompt_tokens,16384,65536,262144,1048576,4194304,unbounded\n512,1,0.05,0.1,0.2,0.4,0.6,0.7\n"
SHARES += "2048,3,0.05,0.1,0.25,0.5,0.75,0.8\n"
PAIRS = (("H20", "H200"), ("H20", "L40S"), ("H800", "L40S"), ("H200", "L40S"))


def scenario_of(number: int, host_gb: object) -> Any:
    """Fleet `number` of 20: other types, counts, bounds, objectives, rents of memory and routers."""
    gpus = dict(zip(PAIRS[number % 4], (1 + number % 3, 2 + number // 10), strict=True))
    document: dict[str, Any] = {
        "model": "qwen3-30b-a3b",
        "workload": {
            **{"kind": "lengths", "name": "again", "mean_output_tokens": 150, "max_output_tokens": 600},
            **{"arrival_rps": 4.0 + number, "lengths": LENGTHS, "prefix": {"block_tokens": 512, "shares": SHARES}},
        },
        "ranges": {"width": 2048},
        "routing": {"most": 1, "policy": "prefix_aware" if number % 2 else "least_work"},
        "serving": "aggregated" if number % 5 == 0 else "split",
        "cost": {"kv_cache_rate": "auto"},
        "tiers": {"host_gb_per_node": host_gb, "host_usd_per_tb_hour": 2.0 * (number % 3)},
        "slo": {"ttft_ms": 3000 + 500 * (number % 4), "tpot_ms": 60, "percentile": 95},
        "search": {"timings": False, "gap": GAP, "min_island_size": 1},
        "simplicity": 0,
        "prices_usd_per_gpu_hour": {gpu: PRICES[gpu] for gpu in gpus},
    }
    if number % 4 == 3:
        document["objective"] = {"kind": "per_dollar"}
    return bucketed(gpus, **document)


LOOKED_AT = (0, 13)


@pytest.mark.parametrize("number", LOOKED_AT)
def test_no_size_and_no_pools_are_better(number: int) -> None:
    planned = plan(scenario_of(number, list(SIZES)))
    assert planned.outlook.tiers is not None
    rows = {row.host_gb_per_node: row for row in planned.outlook.tiers.sizes}
    assert tuple(rows) == SIZES
    best = {}
    for size, row in rows.items():
        judge = Evaluator(question_of(scenario_of(number, size)))
        assert row.value is not None
        assert row.bound is not None
        if judge.question.scenario.objective.kind is ObjectiveKind.RATE:
            best[size] = best_of_all(judge, row.bound)
            assert row.value == pytest.approx(best[size], rel=GAP)
            assert row.bound >= best[size] * (1 - 1e-6)
        else:
            best[size] = row.value
    chosen = planned.scenario.tiers.host_gb_per_node
    assert best[chosen] >= max(best.values()) * (1 - 2 * GAP)
