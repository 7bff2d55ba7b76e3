"""What being sure costs and brings: plans as predicted, plans for a promise that is 80 % sure, and fleets of one GPU
type for the same rent, in the same fresh draws. Writes tests/data/sure_fleets.csv, which the guide's table is held
against; rows that stand there are kept, so that it resumes.

    PYTHONPATH=tests/pipeline python tests/pipeline/sure_fleets.py
"""

import csv
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from planner import pipeline
from planner.domain import Plan, Scenario
from planner.domain.serving.doubt import DoubtedPlan, DoubtSettings
from planner.domain.serving.promise import PromiseSettings
from planner.errors import InfeasibleError
from planner.files.scenario.scenarios import scenario_from_document
from planner.workload import summarize

TABLE = Path(__file__).parents[1] / "data" / "sure_fleets.csv"
SURE, DRAWS, FRESH = 0.8, 256, 7
FLEETS: dict[str, tuple[str, dict[str, int]]] = {
    "16 H200, 16 H20": ("deepseek-v3", {"H200": 16, "H20": 16}),
    "40 H100, 24 A100, 16 H200": ("qwen3-235b-a22b", {"H100": 40, "A100": 24, "H200": 16}),
    "64 H200, 64 H800, 128 H20": ("deepseek-v3", {"H200": 64, "H800": 64, "H20": 128}),
}
TRACES = {"azure-code-2023": (4000, 60), "azure-conv-2023": (2000, 50)}
COLUMNS = ("fleet", "trace", "plan", "promise_rps", "demand_rps", "odds_of_demand", "sure_rps", "p10_rps", "mean_rps")
PRICES = {"H200": 4.0, "H20": 1.0, "H800": 2.0, "H100": 2.99, "A100": 1.8}


def scenario_of(fleet: str, trace: str, gpus: dict[str, int], **keys: Any) -> Scenario:
    """A fleet's question."""
    ttft_ms, tpot_ms = TRACES[trace]
    document = {
        "name": "sure",
        "model": FLEETS[fleet][0],
        "workload": trace,
        "inventory": gpus,
        "prices_usd_per_gpu_hour": {gpu: PRICES[gpu] for gpu in gpus},
        "slo": {"ttft_ms": ttft_ms, "tpot_ms": tpot_ms, "percentile": 99},
        "search": {"timings": False},
        **keys,
    }
    return scenario_from_document(document, origin="the study", base=Path(), summarize=summarize)


def of_one_type(fleet: str, trace: str) -> Plan:
    """The best fleet of whole nodes of one type for the rent of all."""
    gpus = FLEETS[fleet][1]
    rent = sum(PRICES[gpu] * count for gpu, count in gpus.items())
    plans = []
    for gpu in gpus:
        count = int(rent / PRICES[gpu] // 8) * 8
        with suppress(InfeasibleError):
            plans.append(pipeline.plan(scenario_of(fleet, trace, {gpu: count})))
    return max(plans, key=lambda plan: plan.outlook.promise_rps)


def in_fresh_draws(plan: Plan) -> DoubtedPlan:
    """The plan in draws that chose nothing."""
    search = replace(plan.scenario.search, seed=FRESH)
    return pipeline.doubt(replace(plan, scenario=replace(plan.scenario, search=search)), DoubtSettings(draws=DRAWS))


def rows_of(fleet: str, trace: str) -> list[dict[str, object]]:
    """As predicted, 80 % sure, of one type."""
    predicted = pipeline.plan(scenario_of(fleet, trace, FLEETS[fleet][1]))
    asked = replace(predicted.scenario, promise=PromiseSettings(sure=SURE))
    plans = {"as predicted": predicted, "sure": pipeline.plan(asked), "one type": of_one_type(fleet, trace)}
    demand = predicted.outlook.promise_rps / 2
    rows = []
    for name, plan in plans.items():
        drawn = in_fresh_draws(plan)
        gpus = ", ".join(f"{count} {gpu}" for gpu, count in plan.scenario.inventory.counts)
        figures = (plan.outlook.promise_rps, demand, drawn.odds(demand), drawn.sure_rps(SURE), drawn.sure_rps(0.9))
        texts = [f"{figure:.4g}" for figure in (*figures, drawn.mean_rps)]
        label = f"{name}: {gpus}" if name == "one type" else name
        rows.append(dict(zip(COLUMNS, (fleet, trace, label, *texts), strict=True)))
    return rows


def main() -> None:
    """Row by row."""
    rows = list(csv.DictReader(TABLE.open(encoding="utf-8"))) if TABLE.exists() else []
    for trace in TRACES:
        for fleet in FLEETS:
            if any((row["fleet"], row["trace"]) == (fleet, trace) for row in rows):
                continue
            rows += rows_of(fleet, trace)
            with TABLE.open("w", encoding="utf-8", newline="") as file:
                writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
                writer.writeheader()
                writer.writerows(rows)


if __name__ == "__main__":
    main()
