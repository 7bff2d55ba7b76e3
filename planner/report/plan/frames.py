"""Plan tables as data frames: one row an island, a pool, a routing cell or a trial, columns named as the fields."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields

from planner.domain import Band, BucketLatency, BucketPool, GpuWorth, KvFlow, Phase, Plan, PlannedIsland, Route, Trial
from planner.report.kit.frames import Frame, tabled

_ISLAND_COLUMNS = (
    "id",
    "gpu",
    "size",
    "phase",
    "tp",
    "dp",
    "pp",
    "replicas",
    "batch_size",
    "longest_prompt",
    "rate_rps",
    "utilisation",
    "price_usd_per_hour",
    "note",
    "band_low",
    "band_high",
)
_DEGREES = ("tp", "dp", "pp", "replicas")
_ROUTE_COLUMNS = tuple(f.name for f in fields(Route))
_PART_COLUMNS = ("island", "replica", "node", "gpu_indices", "numa_nodes", "asw")
_SITE_COLUMNS = ("island", "gpus", "nodes", "switches", "entropy", "aligned")
_POOL_COLUMNS = (
    "island",
    "phase",
    "start",
    "end",
    "gpu",
    "servers",
    "gpus_per_server",
    "tp",
    "dp",
    "pp",
    "tokens_per_step",
    "batch_size",
    "overlapped",
    "share",
    "capacity_rps",
    "full_rps",
)
_LATENCY_FIELDS = tuple(f.name for f in fields(BucketLatency))
_LATENCY_COLUMNS = (*_LATENCY_FIELDS, "statistic")
_FLOW_COLUMNS = tuple(f.name for f in fields(KvFlow))
_WORTH_COLUMNS = tuple(f.name for f in fields(GpuWorth))


def islands_frame(plan: Plan) -> Frame:
    """One row an island. `phase`, `tp`, `dp`, `pp` and `replicas` are missing where the island is idle.

    `band_low`, `band_high`: P10 and P90 of measured over predicted rates of its type and phase, where there is a band.
    """
    bands = {(estimate.gpu, estimate.phase): estimate.band for estimate in plan.provenance.estimates}
    frame = _frame([_island_row(i, bands) for i in plan.islands], _ISLAND_COLUMNS)
    return frame.astype(dict.fromkeys(_DEGREES, "Int64"))


def pools_frame(plan: Plan) -> Frame:
    """One row a pool of equal servers: `capacity_rps` and `full_rps` are of one server, prompts of `start` <= tokens <
    `end`, `island` names it in `islands`, `per_node` is there where servers are spread (0: as many as fit). None where
    the plan has no buckets."""
    pools = plan.outlook.pools
    spread = ("per_node",) if any(pool.per_node for pool in pools) else ()
    return _frame([_pool_row(pool) for pool in pools], (*_POOL_COLUMNS, *spread))


def latency_frame(plan: Plan) -> Frame:
    """One row a load, phase and bucket: TTFT in prefill, TPOT in decode, missing where the queue has no end;
    `late_ms` is of `statistic`, the percentile that the levels ask for."""
    rows = plan.outlook.latencies
    values = [
        {name: getattr(row, name) for name in _LATENCY_FIELDS}
        | {"load": row.load.value, "phase": row.phase.value, "statistic": plan.scenario.slo.statistic}
        for row in rows
    ]
    figures = ("p50_ms", "late_ms", "bound_ms", "kept_share")
    return _frame(values, _LATENCY_COLUMNS).astype(dict.fromkeys(figures, float))


def routing_frame(plan: Plan) -> Frame:
    """One row a cell (phase, range, island); `share` sums to 1 over the islands of a phase and range."""
    rows = [{name: getattr(r, name) for name in _ROUTE_COLUMNS} | {"phase": r.phase.value} for r in plan.routing]
    return _frame(rows, _ROUTE_COLUMNS)


def sensitivity_frame(plan: Plan) -> Frame:
    """One row a GPU type: requests/s that the rate changes by with a node more, and with `gpus_lost` fewer (missing
    where there are none), each solved anew, and at most; `dual_rps` is the shadow price of one GPU. None where the plan
    has no sensitivity."""
    worths = plan.sensitivity.gpus if plan.sensitivity else ()
    rows = [{name: getattr(worth, name) for name in _WORTH_COLUMNS} for worth in worths]
    return _frame(rows, _WORTH_COLUMNS).astype({"less_node_rps": float, "less_node_most_rps": float})


def flows_frame(plan: Plan) -> Frame:
    """One row a KV flow (prefill island, decode island, range); none where the scenario has no network."""
    return _frame([{name: getattr(flow, name) for name in _FLOW_COLUMNS} for flow in plan.flows], _FLOW_COLUMNS)


def sites_frame(plan: Plan) -> Frame:
    """One row an island on nodes: GPUs, nodes, access switches, the entropy of its shares of them (nats; 0: one
    switch), whether its groups align on NUMA nodes. None where the plan has no placement."""
    sites = plan.placement.sites if plan.placement else ()
    rows: list[dict[str, object]] = [
        {
            "island": site.island,
            "gpus": site.gpus,
            "nodes": site.nodes,
            "switches": site.asws,
            "entropy": site.entropy,
            "aligned": site.aligned,
        }
        for site in sites
    ]
    return _frame(rows, _SITE_COLUMNS)


def placement_frame(plan: Plan) -> Frame:
    """One row a replica's part of a node; none where the plan has no placement.

    `gpu_indices` (attention group after group) and `numa_nodes` are ids with spaces between them; `any N` where nobody
    says which GPUs of the node are free.
    """
    parts = plan.placement.parts if plan.placement else ()
    rows: list[dict[str, object]] = [
        {
            "island": part.island,
            "replica": part.replica,
            "node": part.node,
            "gpu_indices": f"any {len(part.gpu_indices)}" if part.gpus_assumed else _ids(part.gpu_indices),
            "numa_nodes": "" if part.gpus_assumed else _ids(part.numa_nodes),
            "asw": part.asw,
        }
        for part in parts
    ]
    return _frame(rows, _PART_COLUMNS)


def _ids(numbers: Iterable[int]) -> str:
    return " ".join(map(str, numbers))


def trials_frame(plan: Plan) -> Frame:
    """One row an evaluated layout; parameters as `parameter_<name>`, missing where not given.

    `goal_<name>` where the search had several goals, `replayed_rps` where the best were replayed, `failed` where an
    evaluation broke off.
    """
    trials = plan.search.trials
    names = dict.fromkeys(name for t in trials for name, _ in t.parameters)
    goals = dict.fromkeys(name for t in trials for name, _ in t.goals)
    columns = [
        "index",
        "iteration",
        *(f"parameter_{name}" for name in names),
        "layout",
        "throughput_rps",
        *(["replayed_rps"] if plan.search.replayed else []),
        *(f"goal_{name}" for name in goals),
        "generator",
        "error",
        *(["failed"] if any(t.failed for t in trials) else []),
    ]
    return _frame([_trial_row(t) for t in trials], columns)


def _pool_row(pool: BucketPool) -> dict[str, object]:
    row: dict[str, object] = {n: getattr(pool, n) for n in (*_POOL_COLUMNS, "per_node") if hasattr(pool, n)}
    server, parallel = pool.server, pool.server.parallel
    return row | {
        "phase": pool.phase.value,
        "servers": pool.count,
        "gpus_per_server": parallel.devices,
        "tp": parallel.tp,
        "dp": parallel.dp,
        "pp": parallel.pp,
        "tokens_per_step": server.tokens_per_step,
        "batch_size": server.batch_size,
        "overlapped": server.overlapped,
    }


def _island_row(island: PlannedIsland, bands: Mapping[tuple[str, Phase], Band | None]) -> dict[str, object]:
    row: dict[str, object] = {n: getattr(island, n) for n in _ISLAND_COLUMNS if hasattr(island, n)}
    parallel = island.parallel
    row["phase"] = island.phase.value if island.phase else None
    band = bands.get((island.gpu, island.phase)) if island.phase else None
    row |= {"band_low": band.low if band else None, "band_high": band.high if band else None}
    return row | {degree: getattr(parallel, degree, None) for degree in _DEGREES}


def _trial_row(trial: Trial) -> dict[str, object]:
    return {
        "index": trial.index,
        "iteration": trial.iteration,
        **{f"parameter_{name}": value for name, value in trial.parameters},
        "layout": trial.layout.label,
        "throughput_rps": trial.throughput_rps,
        "replayed_rps": trial.replayed_rps,
        **{f"goal_{name}": value for name, value in trial.goals},
        "generator": trial.generator,
        "error": trial.error,
        "failed": trial.failed,
    }


def _frame(rows: Sequence[dict[str, object]], columns: Sequence[str]) -> Frame:
    return tabled(list(rows), list(columns))
