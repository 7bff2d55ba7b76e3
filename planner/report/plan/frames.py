"""Plan tables as data frames: one row an island, a pool, a routing cell or a trial, columns named as the fields."""

import dataclasses
from collections.abc import Iterable
from typing import Any

from planner.domain import Band, BucketLatency, GpuWorth, KvFlow, Phase, PlacedPart, Plan, PlannedIsland, Route
from planner.report.kit.tables import Column, Frame, entries, fields, table_of

_DEGREES = ("tp", "dp", "pp", "replicas")
_POOL = fields(
    *("island", "phase", "start", "end", "gpu", "servers=count", "gpus_per_server=server.parallel.devices"),
    *("server.parallel.tp", "server.parallel.dp", "server.parallel.pp", "server.tokens_per_step", "server.batch_size"),
    *("server.overlapped", "share", "capacity_rps", "full_rps"),
)
_SITE = fields(
    *("island", "gpus", "nodes", "switches=asws", "entropy", "aligned"),
    *("rate_rps", "ideal_rps", "topology_costs_rps=lost_rps", "topology_costs_share=lost_share"),
)
_PART: tuple[Column[PlacedPart], ...] = (
    *fields("island", "replica", "node"),
    Column("gpu_indices", lambda p: f"any {len(p.gpu_indices)}" if p.gpus_assumed else _ids(p.gpu_indices)),
    Column("numa_nodes", lambda p: "" if p.gpus_assumed else _ids(p.numa_nodes)),
    *fields("asw"),
)


def islands_frame(plan: Plan) -> Frame:
    """One row an island. `phase`, `tp`, `dp`, `pp` and `replicas` are missing where the island is idle.

    `band_low`, `band_high`: P10 and P90 of measured over predicted rates of its type and phase, where there is a band.
    """
    bands: dict[tuple[str, Phase | None], Band | None] = {(e.gpu, e.phase): e.band for e in plan.provenance.estimates}

    def band(end: str) -> Column[PlannedIsland]:
        return Column(f"band_{end}", lambda island: getattr(bands.get((island.gpu, island.phase)), end, None))

    columns = (
        *fields("id", "gpu", "size", "phase"),
        *(_degree(name) for name in _DEGREES),
        *fields("batch_size", "longest_prompt", "rate_rps", "utilisation", "price_usd_per_hour", "note"),
        *(band("low"), band("high")),
    )
    return table_of(columns, plan.islands).frame(dict.fromkeys(_DEGREES, "Int64"))


def _degree(name: str) -> Column[PlannedIsland]:
    return Column(name, lambda island: getattr(island.parallel, name, None))


def pools_frame(plan: Plan) -> Frame:
    """One row a pool of equal servers: `capacity_rps` and `full_rps` are of one server, prompts of `start` <= tokens <
    `end`, `island` names it in `islands`, `per_node` is there where servers are spread (0: as many as fit). None where
    the plan has no buckets."""
    pools = plan.outlook.pools
    spread = fields("per_node") if any(pool.per_node for pool in pools) else ()
    return table_of((*_POOL, *spread), pools).frame()


def latency_frame(plan: Plan) -> Frame:
    """One row a load, phase and bucket: TTFT in prefill, TPOT in decode, missing where the queue has no end;
    `late_ms` is of `statistic`, the percentile that the levels ask for, `low_ms` and `high_ms` are its P10 and P90."""
    statistic: Column[BucketLatency] = Column("statistic", lambda _: plan.scenario.slo.statistic)
    figures = ("p50_ms", "late_ms", "bound_ms", "kept_share", "low_ms", "high_ms")
    rows = plan.outlook.latencies
    return table_of((*_all_of(BucketLatency), statistic), rows).frame(dict.fromkeys(figures, float))


def routing_frame(plan: Plan) -> Frame:
    """One row a cell (phase, range, island); `share` sums to 1 over the islands of a phase and range."""
    return table_of(_all_of(Route), plan.routing).frame()


def sensitivity_frame(plan: Plan) -> Frame:
    """One row a GPU type: requests/s that the rate changes by with a node more, and with `gpus_lost` fewer (missing
    where there are none), each solved anew, and at most; `dual_rps` is the shadow price of one GPU. None where the plan
    has no sensitivity."""
    worths = plan.sensitivity.gpus if plan.sensitivity else ()
    return table_of(_all_of(GpuWorth), worths).frame({"less_node_rps": float, "less_node_most_rps": float})


def flows_frame(plan: Plan) -> Frame:
    """One row a KV flow (prefill island, decode island, range); none where the scenario has no network."""
    return table_of(_all_of(KvFlow), plan.flows).frame()


def sites_frame(plan: Plan) -> Frame:
    """One row an island on nodes: GPUs, nodes, access switches, the entropy of its shares of them (nats; 0: one
    switch), whether its groups align on NUMA nodes. None where the plan has no placement."""
    return table_of(_SITE, plan.placement.sites if plan.placement else ()).frame()


def placement_frame(plan: Plan) -> Frame:
    """One row a replica's part of a node; none where the plan has no placement.

    `gpu_indices` (attention group after group) and `numa_nodes` are ids with spaces between them; `any N` where nobody
    says which GPUs of the node are free.
    """
    return table_of(_PART, plan.placement.parts if plan.placement else ()).frame()


def _ids(numbers: Iterable[int]) -> str:
    return " ".join(map(str, numbers))


def _all_of(record: type) -> tuple[Column[Any], ...]:
    return fields(*(field.name for field in dataclasses.fields(record)))


def trials_frame(plan: Plan) -> Frame:
    """One row an evaluated layout; parameters as `parameter_<name>`, missing where not given.

    `goal_<name>` where the search had several goals, `replayed_rps` where the best were replayed, `failed` where an
    evaluation broke off.
    """
    trials = plan.search.trials
    columns = (
        *fields("index", "iteration"),
        *entries(lambda trial: trial.parameters, trials, "parameter_"),
        *fields("layout=layout.label", "throughput_rps", *(["replayed_rps"] if plan.search.replayed else [])),
        *entries(lambda trial: trial.goals, trials, "goal_"),
        *fields("generator", "error", *(["failed"] if any(t.failed for t in trials) else [])),
    )
    return table_of(columns, trials).frame()
