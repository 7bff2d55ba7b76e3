"""The tables of a plan of buckets: pools, times by bucket, simpler plans, losses."""

from collections.abc import Sequence

from planner.domain import NodeLoss, Plan, SimplerPlan
from planner.domain.serving.routing import WORTH_A_BUCKET
from planner.report.buckets.view import (
    transfer_text,
    useful_simpler,
)
from planner.report.kit.quantities import counted, percent, rate, significant
from planner.report.kit.tables import Column, Table, counts, fields, table_of


def latency_words(plan: Plan) -> str:
    """What the times are, and of which requests the bounds have to hold."""
    slo = plan.scenario.slo
    words = [
        "TTFT: queueing, prefill, KV transfer and the first decode step; late TPOT is that of the "
        f"fullest moments. Arrivals are Poisson, the router {plan.scenario.router.name.replace('_', ' ')}.",
    ]
    if not plan.outlook.levels_set:
        words.append("**No service levels are set**, so nothing holds these times down: `slo` does.")
    elif slo.percentile is not None:
        whose = "all requests" if slo.over_all else "the requests of each bucket"
        words.append(f"The bound on TTFT is to be kept for P{slo.percentile:g} of {whose}.")
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
        *counts("Nodes lost=nodes"),
        Column("Servers lost", lambda loss: f"{loss.servers} of {pools[loss.island].count}", right=True),
        Column("Requests/s that remain", lambda loss: loss.rate_rps, rate),
        Column("Of the capacity", lambda loss: loss.rate_rps / plan.throughput_rps, percent),
    )
    return table_of(columns, sorted(plan.outlook.losses, key=lambda loss: loss.rate_rps))
