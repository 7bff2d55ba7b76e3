"""What plans of every form came to before: scenarios of every kind, their plans as a few lines of text, and the golden.

Run as a script it writes the golden anew; each line that changes then has to be a change that somebody wanted.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from pipeline_scenarios import bucketed, by_deviation, in_table, shipped, short, small
from test_placing import ROOMY

from planner.domain import CostMode, CostSettings, Plan, PlannedIsland, Route, Scenario
from planner.pipeline import plan

GOLDEN = Path(__file__).with_name("plan_goldens.txt")
MOST_ROUTES = 24  # more of them are told by what they add up to
FLEET = {"H200": 32, "H20": 64}
FEW = {"H200": 16, "H20": 32}
LEVELS = {"ttft_ms": 4000, "tpot_ms": 60, "percentile": 99}
SEARCH = {"method": "random", "iterations": 2, "batch_size": 4, "timings": False}
EXACT = {"method": "exact", "timings": False}


def _in_reference_mode(scenario: Scenario) -> Scenario:
    return replace(scenario, cost=CostSettings(mode=CostMode.REFERENCE, engine=scenario.cost.engine))


SCENARIOS: dict[str, Callable[[], Scenario]] = {
    "azure-code-512usd, short": lambda: short(shipped("azure-code-512usd")),
    "table, searched": lambda: small(FLEET),
    "table, exact": lambda: small(FEW, search=EXACT),
    "table, levels": lambda: small(FLEET, slo=LEVELS),
    "table, exact, target": lambda: small(FEW, search=EXACT, objective={"kind": "target", "target_rps": 20}),
    "table, exact, per dollar": lambda: small(FEW, search=EXACT, objective={"kind": "per_dollar"}),
    "table, deviation": lambda: by_deviation(small(FLEET)),
    "table, reference": lambda: _in_reference_mode(small(FLEET)),
    "table, on nodes": lambda: replace(small(FLEET), cluster=ROOMY),
    "table, network": lambda: small(FEW, network={"nic_share": 0.002, "uplinks_gb_s": {"H20": 2.0}}),
    "table, several goals": lambda: small(FEW, objective={"kind": "pareto", "goals": ["rate", "price"]}),
    "sets, levels": lambda: in_table(small(FLEET, slo=LEVELS, routing={"form": "sets"})),
    "buckets, split": lambda: bucketed(FLEET),
    "buckets, any form, levels": lambda: bucketed(FEW, slo=LEVELS, serving="auto"),
    "buckets, aggregated, levels": lambda: bucketed(FEW, slo=LEVELS, serving="aggregated"),
    "buckets, searched": lambda: bucketed({"H200": 32}, slo=LEVELS, search=SEARCH),
    "buckets, survive": lambda: bucketed({"H200": 32}, slo=LEVELS, survive={"share": 0.5, "nodes": 1}),
    "buckets, target": lambda: bucketed({"H200": 32}, objective={"kind": "target", "target_rps": 20}),
    "buckets, network": lambda: bucketed(FEW, network={"nic_share": 0.002, "uplinks_gb_s": {"H20": 2.0}}),
    "buckets, on nodes": lambda: replace(bucketed(FLEET), cluster=ROOMY),
    "buckets, replayed": lambda: bucketed(
        {"H200": 24},
        slo=LEVELS,
        objective={"kind": "replayed", "requests": 1000, "replays": 1},
        search={"iterations": 2, "batch_size": 5, "timings": False},
    ),
}


def told(made: Plan) -> str:
    """A plan in a few lines: what it serves and promises, its bounds, its islands, and where lengths go."""
    certificate, sensitivity, buckets = made.certificate, made.sensitivity, made.buckets
    lines = [
        f"  serves {_number(made.throughput_rps)}: prefill {_number(made.prefill_rps)}, "
        f"decode {_number(made.decode_rps)}, at exact lengths {_number(made.exact_rps)}",
    ]
    if certificate is not None:
        lines.append(
            f"  objective {_number(certificate.objective_value)} of {_number(certificate.objective_bound)}, "
            f"rate of {_number(certificate.bound_rps)}: {certificate.note}"
        )
    if sensitivity is not None:
        worths = (f"{worth.gpu} {_number(worth.more_node_rps)}" for worth in sensitivity.gpus)
        lines.append(f"  binds {sensitivity.binding}; a node more: {', '.join(worths)}; first {sensitivity.drop_first}")
    if buckets is not None and buckets.pools:
        losses = ", ".join(f"{loss.island} {_number(loss.rate_rps)}" for loss in buckets.losses)
        lines.append(f"  promises {_number(buckets.promise_rps)}; after a loss: {losses}")
    lines += [f"  {_island(island)}" for island in made.islands]
    if len(made.routing) <= MOST_ROUTES:
        lines += [f"  {_route(route)}" for route in made.routing]
    else:
        capacity = sum(route.share * route.capacity_rps for route in made.routing)
        lines.append(f"  {len(made.routing)} routes of {_number(capacity)} by their shares")
    return "\n".join(lines)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def _island(island: PlannedIsland) -> str:
    degrees = island.parallel
    how = "idle" if degrees is None else f"tp{degrees.tp} dp{degrees.dp} pp{degrees.pp} x{degrees.replicas}"
    return f"{island.id}: {island.size} GPUs, {how}, batch {island.batch_size}, {_number(island.rate_rps)}"


def _route(route: Route) -> str:
    span = f"{route.range_start}-{route.range_end - 1}"
    return f"{route.phase} {span} -> {route.island} {_number(route.share)}, {_number(route.capacity_rps)}"


def golden_of(name: str, made: Plan) -> str:
    """The plan of a scenario, as the golden tells it."""
    return f"{name}\n{told(made)}\n"


def goldens() -> dict[str, str]:
    """Every plan as it was, by the name of its scenario."""
    texts = GOLDEN.read_text().split("\n\n")
    return {text.partition("\n")[0]: text.rstrip("\n") + "\n" for text in texts}


if __name__ == "__main__":
    GOLDEN.write_text("\n".join(golden_of(name, plan(asked())) for name, asked in SCENARIOS.items()))
