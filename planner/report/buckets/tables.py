"""The tables of a plan of buckets: pools, times by bucket, simpler plans, losses."""

from collections.abc import Mapping, Sequence

from planner.domain import PHASES, Band, BucketPool, LoadPoint, NodeLoss, Phase, Plan, SimplerPlan, halves_of
from planner.domain.serving.levels import TIMES, Standing, judged_levels
from planner.domain.serving.routing import WORTH_A_BUCKET
from planner.report.buckets.view import (
    BucketView,
    bound_span,
    bounds_in,
    buckets_of,
    latencies_at,
    own_buckets,
    span_label,
    time,
    transfer_text,
    useful_simpler,
)
from planner.report.kit.quantities import band_in_percent, counted, money, percent, rate, significant, whole
from planner.report.kit.tables import Column, Table, counts, fields, table_of


def pools_table(plan: Plan) -> str:
    """One row a pool, by phase and bucket; the id is that of its manifests. Where losses of nodes count on servers that
    are spread, how many of them a node has at most."""
    pools = plan.outlook.pools
    spread = any(pool.per_node for pool in pools)
    staged = any(pool.server.parallel.pp > 1 for pool in pools)
    bands = {(e.gpu, e.phase): e.band for e in plan.provenance.estimates if e.band is not None}
    busy = {island.id: island.utilisation for island in plan.islands}
    band: Column[BucketPool] = Column("P10–P90", lambda pool: _band(bands, pool), band_in_percent)
    columns: tuple[Column[BucketPool], ...] = (
        *fields("Pool=island", "Phase=phase"),
        Column("Prompts (tokens)", lambda pool: span_label(pool.start, pool.end)),
        *fields("GPU type=gpu"),
        *counts("Servers=count"),
        *([Column("On a node", _per_node, str)] if spread else []),
        *counts("GPUs each=server.parallel.devices", "TP=server.parallel.tp", "DP=server.parallel.dp"),
        *(counts("PP=server.parallel.pp") if staged else ()),
        Column("Tokens a step", lambda pool: pool.server.tokens_per_step or None, whole),
        *counts("Batch=server.batch_size"),
        Column("Overlap", lambda pool: pool.server.overlapped, right=True),
        Column("Takes", lambda pool: pool.share, percent),
        Column("Requests/s a server", lambda pool: pool.capacity_rps, rate),
        *([band] if bands else []),
        Column("Utilisation", lambda pool: busy.get(pool.island, 0.0), percent),
        Column("USD/hour", lambda pool: _rent(plan, pool), money),
    )
    ordered = (pool for phase in Phase for bucket in own_buckets(plan, phase) for pool in bucket.pools)
    return table_of(columns, ordered).markdown()


def _per_node(pool: BucketPool) -> str | None:
    return f"at most {whole(pool.per_node)}" if pool.per_node else None


def _band(bands: Mapping[tuple[str, Phase], Band], pool: BucketPool) -> Band | None:
    """How far off a server's rate may be; of one that does both phases, the wider."""
    of_halves = [bands[pool.gpu, half] for half in halves_of(pool.phase) if (pool.gpu, half) in bands]
    return max(of_halves, key=lambda band: band.high - band.low, default=None)


def _rent(plan: Plan, pool: BucketPool) -> float | None:
    inventory = plan.scenario.inventory
    if pool.gpu in inventory.without_price:
        return None
    return pool.gpus * inventory.item(pool.gpu).price_usd_per_gpu_hour


def latency_text(plan: Plan) -> str:
    """TTFT and TPOT of every bucket, P50 and as late as the levels count, at each load; below, what the figures are."""
    slo = plan.scenario.slo
    loads = [load for load in LoadPoint if latencies_at(plan, load, Phase.PREFILL)]
    bound: Column[BucketView] = Column(
        f"Bound ({slo.statistic})",
        lambda bucket: bound_span(bounds_in(slo, bucket.phase, bucket.start, bucket.end)),
        right=True,
    )
    columns: tuple[Column[BucketView], ...] = (
        Column("", lambda bucket: TIMES[bucket.phase]),
        *fields("Prompts (tokens)=label"),
        *([bound] if plan.outlook.levels_set else []),
        *(_times(plan, load, word) for load in loads for word in dict.fromkeys(("P50", slo.statistic))),
    )
    body = table_of(columns, (bucket for phase in PHASES for bucket in buckets_of(plan, phase))).markdown()
    return f"{body}\n\n{latency_words(plan)}"


def _times(plan: Plan, load: LoadPoint, statistic: str) -> Column[BucketView]:
    """Times at a load; late ones beyond their bound are bold."""
    late, broken = statistic == plan.scenario.slo.statistic, _broken(plan)

    def cell(bucket: BucketView) -> str:
        rows = latencies_at(plan, load, bucket.phase)
        row = next(row for row in rows if (row.start, row.end) == (bucket.start, bucket.end))
        if not late:
            return time(row.p50_ms)
        bold = "**" * ((load.value, row.phase, row.start, row.end) in broken)
        return f"{bold}{time(row.late_ms)}{bold}"

    rate_rps = latencies_at(plan, load, Phase.PREFILL)[0].rate_rps
    return Column(f"{load.value.capitalize()}, {significant(rate_rps)}/s: {statistic}", cell, str)


def _broken(plan: Plan) -> set[tuple[str, Phase, int, int]]:
    """Loads and buckets that break their bound."""
    return {
        (levels.load, check.phase, check.start, check.end)
        for levels in judged_levels(plan)
        for check in levels.checks
        if check.standing is Standing.BREAKS
    }


def latency_words(plan: Plan) -> str:
    """What the times are, and of which requests the bounds have to hold."""
    slo = plan.scenario.slo
    words = [
        "TTFT: queueing, prefill, KV transfer and the first decode step; late TPOT is that of the "
        "fullest moments. Arrivals are Poisson, the router least work.",
    ]
    if not plan.outlook.levels_set:
        words.append("**No service levels are set**, so nothing holds these times down: `slo` does.")
    elif slo.percentile is not None:
        whose = "all requests" if slo.over_all else "the requests of each bucket"
        words.append(f"The bound on TTFT is to be kept for P{slo.percentile:g} of {whose}.")
    if _broken(plan):
        words.append("Bold: beyond the bound.")
    transfer = plan.outlook.transfer
    if transfer is not None:
        words.append(f"KV transfer: {transfer_text(transfer)}.")
    return " ".join(words)


_SIMPLER: tuple[Column[SimplerPlan], ...] = (
    *counts("Kinds of servers=kinds", "Buckets of prefill=prefill_buckets", "Buckets of decode=decode_buckets"),
    *counts("Pools=pools"),
    Column("Requests/s", lambda row: row.rate_rps, rate),
)


def simpler_plans(plan: Plan) -> Table[SimplerPlan]:
    """A row for what a simpler plan, and a less simple one, would serve, the plan among them."""
    rows = useful_simpler(plan)
    best = next((row.rate_rps for row in rows if row.chosen), 0.0) or max((row.rate_rps for row in rows), default=0.0)
    last: Column[SimplerPlan] = Column(
        "Of the plan", lambda row: "the plan" if row.chosen else percent(row.rate_rps / best), right=True
    )
    return table_of((*_SIMPLER, last), rows)


def simplicity_words(plan: Plan) -> str:
    """The simplest other plan, and what may be given up for being simpler."""
    rows = useful_simpler(plan)
    chosen = next((row for row in rows if row.chosen), None)
    lead = [_simplest_words(rows, chosen) if chosen else "", _slack(plan), "Rates here are the programme's."]
    return " ".join(part for part in lead if part)


def _simplest_words(rows: Sequence[SimplerPlan], chosen: SimplerPlan) -> str:
    """The simplest other plan in words."""
    other = min((row for row in rows if row is not chosen), key=lambda row: (row.kinds, row.pools), default=None)
    if other is None:
        return "No simpler plan was found."
    routed = other.prefill_buckets + other.decode_buckets > 2
    routing = f"{other.prefill_buckets} and {other.decode_buckets} buckets" if routed else "no length routing"
    return (
        f"{counted(other.kinds, 'kind')} of servers and {routing}: {significant(other.rate_rps)} "
        f"requests/s where the plan has {significant(chosen.rate_rps)}."
    )


def _slack(plan: Plan) -> str:
    share = plan.scenario.simplicity
    if not share:
        return ""
    return (
        f"A further bucket must add {100 * WORTH_A_BUCKET:g} %; for fewer kinds of servers the plan may give up "
        f"{100 * share:g} % of the best rate (`simplicity`)."
    )


def losses(plan: Plan) -> Table[NodeLoss]:
    """What remains after the loss of nodes of each pool, the worst first."""
    pools = {pool.island: pool for pool in plan.outlook.pools}
    columns: tuple[Column[NodeLoss], ...] = (
        *fields("A node of=island"),
        Column("GPU type", lambda loss: pools[loss.island].gpu),
        Column("Nodes lost", lambda loss: loss.nodes, whole),
        Column("Servers lost", lambda loss: f"{loss.servers} of {pools[loss.island].count}", right=True),
        Column("Requests/s that remain", lambda loss: loss.rate_rps, rate),
        Column("Of the capacity", lambda loss: loss.rate_rps / plan.throughput_rps, percent),
    )
    return table_of(columns, sorted(plan.outlook.losses, key=lambda loss: loss.rate_rps))


def losses_table(plan: Plan) -> str:
    """The same in Markdown; how many nodes are lost is told above it."""
    table = losses(plan)
    return table.only(*(name for name in table.names if name != "Nodes lost")).markdown()
