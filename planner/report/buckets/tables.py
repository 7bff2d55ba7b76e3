"""The tables of a plan of buckets: pools, times by bucket, simpler plans, losses."""

from collections.abc import Mapping, Sequence

from planner.domain import PHASES, Band, BucketPool, LoadPoint, NodeLoss, Phase, Plan, SimplerPlan, halves_of
from planner.domain.serving.levels import TIMES, Standing, judged_levels
from planner.domain.serving.routing import WORTH_A_BUCKET
from planner.report.buckets.view import (
    BucketView,
    bound_span,
    bounds_in,
    bucket_plan,
    buckets_of,
    latencies_at,
    own_buckets,
    time,
    transfer_text,
    useful_simpler,
)
from planner.report.kit.bands import band_in_percent
from planner.report.kit.markdown import escaped, table
from planner.report.kit.quantities import NONE, counted, money, percent, rate, significant, whole


def pools_table(plan: Plan) -> str:
    """One row a pool, by phase and bucket; the id is that of its manifests."""
    staged = any(pool.server.parallel.pp > 1 for pool in bucket_plan(plan).pools)
    bands = {(e.gpu, e.phase): e.band for e in plan.provenance.estimates if e.band is not None}
    header = ["Pool", "Phase", "Prompts (tokens)", "GPU type", "Servers", "GPUs each", "TP", "DP"]
    header += [*(["PP"] if staged else []), "Tokens a step", "Batch", "Overlap", "Takes", "Requests/s a server"]
    header += [*(["P10–P90"] if bands else []), "Utilisation", "USD/hour"]
    busy = {island.id: island.utilisation for island in plan.islands}
    rows = [
        [
            *_server_cells(bucket, pool, staged=staged),
            percent(pool.share),
            rate(pool.capacity_rps),
            *([band_in_percent(_band(bands, pool))] if bands else []),
            percent(busy.get(pool.island, 0.0)),
            _rent(plan, pool),
        ]
        for phase in Phase
        for bucket in own_buckets(plan, phase)
        for pool in bucket.pools
    ]
    return table(header, rows, "llll" + "r" * (len(header) - 4))


def _band(bands: Mapping[tuple[str, Phase], Band], pool: BucketPool) -> Band | None:
    """How far off a server's rate may be; of one that does both phases, the wider."""
    of_halves = [bands[pool.gpu, half] for half in halves_of(pool.phase) if (pool.gpu, half) in bands]
    return max(of_halves, key=lambda band: band.high - band.low, default=None)


def _server_cells(bucket: BucketView, pool: BucketPool, *, staged: bool) -> list[str]:
    server = pool.server
    return [
        escaped(pool.island),
        pool.phase.value,
        bucket.label,
        escaped(pool.gpu),
        whole(pool.count),
        whole(server.parallel.devices),
        whole(server.parallel.tp),
        whole(server.parallel.dp),
        *([whole(server.parallel.pp)] if staged else []),
        whole(server.tokens_per_step) if server.tokens_per_step else NONE,
        whole(server.batch_size),
        "yes" if server.overlapped else "no",
    ]


def _rent(plan: Plan, pool: BucketPool) -> str:
    inventory = plan.scenario.inventory
    if pool.gpu in inventory.without_price:
        return NONE
    return money(pool.gpus * inventory.item(pool.gpu).price_usd_per_gpu_hour)


def latency_text(plan: Plan) -> str:
    """TTFT and TPOT of every bucket, P50 and as late as the levels count, at each load; below, what the figures are."""
    slo = plan.scenario.slo
    loads = [load for load in LoadPoint if latencies_at(plan, load, Phase.PREFILL)]
    statistics = dict.fromkeys(("P50", slo.statistic))
    heads = [f"{_load_label(plan, load)}: {statistic}" for load in loads for statistic in statistics]
    bounded = [f"Bound ({slo.statistic})"] if bucket_plan(plan).levels_set else []
    rows = [
        [
            TIMES[phase],
            bucket.label,
            *([_bound_cell(plan, bucket)] if bounded else []),
            *_times_of(plan, bucket, loads),
        ]
        for phase in PHASES
        for bucket in buckets_of(plan, phase)
    ]
    body = table(["", "Prompts (tokens)", *bounded, *heads], rows, "ll" + "r" * (len(bounded) + len(heads)))
    return f"{body}\n\n{latency_words(plan)}"


def _load_label(plan: Plan, load: LoadPoint) -> str:
    return f"{load.value.capitalize()}, {significant(latencies_at(plan, load, Phase.PREFILL)[0].rate_rps)}/s"


def _bound_cell(plan: Plan, bucket: BucketView) -> str:
    return bound_span(bounds_in(plan.scenario.slo, bucket.phase, bucket.start, bucket.end))


def _times_of(plan: Plan, bucket: BucketView, loads: Sequence[LoadPoint]) -> list[str]:
    broken = _broken(plan)
    cells: list[str] = []
    for load in loads:
        row = next(r for r in latencies_at(plan, load, bucket.phase) if (r.start, r.end) == (bucket.start, bucket.end))
        late = time(row.late_ms)
        late = f"**{late}**" if (load.value, row.phase, row.start, row.end) in broken else late
        cells += [time(row.p50_ms), late] if plan.scenario.slo.statistic != "P50" else [late]
    return cells


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
    if not bucket_plan(plan).levels_set:
        words.append("**No service levels are set**, so nothing holds these times down: `slo` does.")
    elif slo.percentile is not None:
        whose = "all requests" if slo.over_all else "the requests of each bucket"
        words.append(f"The bound on TTFT is to be kept for P{slo.percentile:g} of {whose}.")
    if _broken(plan):
        words.append("Bold: beyond the bound.")
    transfer = bucket_plan(plan).transfer
    if transfer is not None:
        words.append(f"KV transfer: {transfer_text(transfer)}.")
    return " ".join(words)


def simplicity_text(plan: Plan) -> str:
    """What simpler plans would serve, and less simple ones."""
    rows = useful_simpler(plan)
    chosen = next((row for row in rows if row.chosen), None)
    if chosen is None:
        return ""
    lines = [_simple_row(row, chosen) for row in rows]
    header = ["Kinds of servers", "Buckets of prefill", "Buckets of decode", "Pools", "Requests/s", "Of the plan"]
    return f"{simplicity_words(plan)}\n\n{table(header, lines, 'rrrrrr')}"


def simplicity_words(plan: Plan) -> str:
    """The simplest other plan, and what may be given up for being simpler."""
    rows = useful_simpler(plan)
    chosen = next((row for row in rows if row.chosen), None)
    lead = [_least(rows, chosen) if chosen else "", _slack(plan), "Rates here are the programme's."]
    return " ".join(part for part in lead if part)


def _least(rows: Sequence[SimplerPlan], chosen: SimplerPlan) -> str:
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


def _simple_row(row: SimplerPlan, chosen: SimplerPlan) -> list[str]:
    counts = [row.kinds, row.prefill_buckets, row.decode_buckets, row.pools]
    cells = [*map(whole, counts), rate(row.rate_rps), percent(row.rate_rps / chosen.rate_rps)]
    return [f"**{cell}**" for cell in [*cells[:-1], "the plan"]] if row.chosen else cells


def losses_table(plan: Plan) -> str:
    """What remains after the loss of nodes of each pool, the worst first."""
    losses = sorted(bucket_plan(plan).losses, key=lambda loss: loss.rate_rps)
    pools = {pool.island: pool for pool in bucket_plan(plan).pools}
    header = ["A node of", "GPU type", "Servers lost", "Requests/s that remain", "Of the capacity"]
    return table(header, [_loss_row(plan, loss, pools[loss.island]) for loss in losses], "llrrr")


def _loss_row(plan: Plan, loss: NodeLoss, pool: BucketPool) -> list[str]:
    return [
        escaped(loss.island),
        escaped(pool.gpu),
        f"{loss.servers} of {pool.count}",
        rate(loss.rate_rps),
        percent(loss.rate_rps / plan.throughput_rps),
    ]
