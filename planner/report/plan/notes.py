"""What a reader must know before trusting a plan: what can make it fail, and what its numbers leave out."""

import math
from collections import Counter
from collections.abc import Iterator
from statistics import NormalDist

from planner.domain import PHASES, CacheRate, CostMode, Formulation, Plan, Relation, RouterPolicy
from planner.domain.usable import left_out_of
from planner.report.kit.markdown import escaped
from planner.report.kit.quantities import banded_rate, beside, counted, percent, rate, significant, span
from planner.report.plan.latency import exactness_note
from planner.report.plan.routing import IslandGroup, groups, intervals, shares

LITTLE_LEFT = 0.5
"""Share of the capacity below which what a lost node leaves is a risk to name."""
_OUTER = NormalDist().inv_cdf(0.9)


def risks(plan: Plan) -> list[str]:
    """A sentence or two each, the gravest first; escaped Markdown."""
    if plan.throughput_rps <= 0:
        return []
    return [*_lost_nodes(plan), *_bursts(plan), *_carried(plan), *_odds(plan), *_estimated_prices(plan)]


def _lost_nodes(plan: Plan) -> Iterator[str]:
    """Pools whose loss stops much of the service."""
    counts = {pool.island: pool.count for pool in plan.outlook.pools}
    for loss in sorted(plan.outlook.losses, key=lambda loss: loss.rate_rps):
        share = loss.rate_rps / plan.throughput_rps
        if share >= LITTLE_LEFT:
            continue
        remains = "nothing" if loss.rate_rps <= 0 else f"{percent(share)} of the capacity"
        count = counts[loss.island]
        lost_words = f"{loss.servers} of its {counted(count, 'server')}"
        if loss.servers == count:
            lost_words = "its only server" if count == 1 else f"all of its {count} servers"
        yield (
            f"**Single point of failure: a lost {'node' if loss.nodes == 1 else f'set of {loss.nodes} nodes'} of "
            f"{escaped(loss.island)} leaves {remains}** ({significant(max(loss.rate_rps, 0.0))} requests/s), as it "
            f"takes {lost_words}. `survive` plans for what has to remain."
        )


def _bursts(plan: Plan) -> Iterator[str]:
    buckets = plan.outlook
    if not buckets.levels_set:
        return
    if buckets.bursts_bind and buckets.burst_rps is not None:
        yield (
            f"**Bursts: of the promise of {significant(buckets.promise_rps)} requests/s only "
            f"{significant(buckets.burst_rps)} remain where requests bunch as in the trace** "
            f"({percent(buckets.burst_rps / buckets.promise_rps)}); the higher figure is for independent arrivals."
        )
    elif buckets.burst_rps is None:
        yield (
            "**Bursts are not known**: the workload has no arrival times, so the promise is for independent arrivals; "
            "requests that bunch leave less of it."
        )


MEASURE_FIRST = "Measure one server before you rent many: `planner cost measure` says which runs tell most."


def carried(plan: Plan) -> str:
    """What was never measured of the plan's estimates, with GPU types, and layers that no measured run has; empty where
    model, GPU types and engine were measured together. Names from the user are not escaped."""
    gpus: dict[Relation, list[str]] = {}
    for estimate in plan.provenance.estimates:
        relation = estimate.band.relation if estimate.band else None
        if relation is not None and relation.words:
            gpus.setdefault(relation, []).append(estimate.gpu)
    parts = [f"{relation.words} ({', '.join(dict.fromkeys(names))})" for relation, names in gpus.items()]
    layers = plan.scenario.model.unmeasured if Relation.FORMULAS in gpus else ()
    return "; ".join([*parts, *([f"no measured run has such layers: {'; '.join(layers)}"] if layers else [])])


def _carried(plan: Plan) -> Iterator[str]:
    if unmeasured := carried(plan):
        yield (
            f"**Carried over: {escaped(unmeasured)}.** Rates, times and their bands are those of the measurements that "
            f"come nearest, each predicted without its like. {MEASURE_FIRST}"
        )


def carried_odds(plan: Plan) -> float | None:
    """How likely the GPUs serve the promised rate: as draws tell, else by the band of the plan's rate taken as
    log-normal; None where there is no band."""
    if plan.outlook.odds is not None:
        return plan.scenario.promise.sure or plan.outlook.odds.odds
    banded = banded_rate(plan)
    if banded is None or banded.low <= 0 or banded.high <= banded.low:
        return None
    middle, spread = (math.log(banded.low * banded.high) / 2, math.log(banded.high / banded.low) / (2 * _OUTER))
    return 1.0 - NormalDist(middle, spread).cdf(math.log(plan.outlook.promise_rps))


def _odds(plan: Plan) -> Iterator[str]:
    odds, banded = carried_odds(plan), banded_rate(plan)
    # what draws tell stands in the verdict
    if odds is None or banded is None or odds >= 0.5 or plan.outlook.odds is not None:
        return
    yield (
        f"**By its own band the promise of {significant(plan.outlook.promise_rps)} requests/s is below even odds**: "
        f"the GPUs serve as much with a probability of {percent(odds)} (P10\u2013P90 of the capacity: {banded.range}). "
        "Measure before you rely on it, or plan for less."
    )


def _estimated_prices(plan: Plan) -> Iterator[str]:
    """List prices that nobody publishes, where the answer counts money."""
    row = plan.scenario.objective.kind.row
    guessed = [item for item in plan.scenario.inventory.items if item.price_estimated]
    if not guessed:
        return
    names = ", ".join(f"{escaped(item.gpu.name)} ({item.rent_usd_per_gpu_hour:g} USD/hour)" for item in guessed)
    if row.rents or row.priced:
        yield f"**Prices that nobody publishes help to decide the answer**: estimates for {names}. Give your own."
    elif any(plan.fleet[item.gpu.name] for item in guessed):
        yield f"Prices that nobody publishes are in all sums of money here: estimates for {names}."


COARSE = 0.1
SHARE_TOLERANCE = 1e-3
"""Shares of a range may miss 1 by the solver's rounding, no more."""


def notes(plan: Plan) -> list[str]:
    """The notes that apply, gravest first; escaped Markdown, one sentence or two each."""
    return [
        *_unserved(plan),
        *_cut_short(plan),
        *_troubled_rounds(plan),
        *_unproven(plan),
        *[f"Of the model: {escaped(assumed)}" for assumed in plan.scenario.model.assumed],
        *risks(plan),
        *exactness_note(plan),
        *_beside(plan),
        *_drafts(plan),
        *_cached(plan),
        *_reference(plan),
        *_deviation(plan),
        *_coarse(plan),
        *_load(plan),
        *_idle(plan),
        *_outside(plan),
        *_left_out(plan),
        *_remarks(plan),
        *_failures(plan),
    ]


def _drafts(plan: Plan) -> Iterator[str]:
    """What drafted tokens bring, and whose chances of acceptance that rests on."""
    rows = plan.outlook.drafts
    if rows:
        pools = "; ".join(
            f"{escaped(row.island)} {counted(row.tokens, 'token')} a step, {row.tokens_per_pass:.2f} tokens a pass, "
            f"{row.gain:.2f} times the rate without at its batch"
            for row in rows
        )
        whose = "those of the scenario" if plan.scenario.cost.drafting.acceptance else "published ones of this model"
        if any(row.carried_over for row in rows):
            whose = "carried over from other models that were measured: give your own (`cost.speculation.acceptance`)"
        yield f"Drafted: {pools}. Chances of acceptance are {whose}; text that is hard to guess has less of the gain."


def _cached(plan: Plan) -> list[str]:
    """What `auto` takes for granted of the prefix cache."""
    if plan.scenario.cost.kv_cache_rate != CacheRate.AUTO:
        return []
    if plan.scenario.routing.policy is RouterPolicy.PREFIX_AWARE:
        router = "The router is taken to send a prompt to the rank that holds most of its prefix"
    else:
        router = (
            "The router does not look at prefixes: but for what most prompts share, one prompt in as many as there are "
            "ranks comes to where its prefix is (`routing.policy: prefix_aware` finds more)"
        )
    where = "memory that a rank of prefill has left"
    if plan.scenario.tiers is not None:
        where += " or its part of the tiers below it, of which alone pools of both phases count"
    return [
        f"Prefix cache: prompts find {_share_words(plan)}what they would have found in the trace's own order, in the "
        f"{where} and as long as it keeps them at full load. {router}."
    ]


def _share_words(plan: Plan) -> str:
    """`21 % to 24 % of their tokens, `."""
    shares = [island.cached_share for island in plan.islands if island.cached_share is not None]
    if not shares:
        return ""
    ends = dict.fromkeys((percent(min(shares)), percent(max(shares))))
    return f"{' to '.join(ends)} of their tokens, "


def _left_out(plan: Plan) -> list[str]:
    scenario = plan.scenario
    if scenario.cluster is None:
        return []
    types = [item.gpu.name for item in scenario.inventory.items]
    left_out = left_out_of(scenario.cluster, scenario.placement, types)
    return [f"Left out of the cluster: {escaped(reason)}." for reason in left_out] + _by_number(plan)


def _by_number(plan: Plan) -> list[str]:
    """Said where parts lie on nodes whose pods do not say which GPUs they hold."""
    parts = [part for part in plan.placement.parts if part.gpus_assumed] if plan.placement else []
    if not parts:
        return []
    gpus, nodes = sum(len(part.gpu_indices) for part in parts), len({part.node for part in parts})
    return [
        f"{gpus:,} GPUs on {nodes:,} node{'' if nodes == 1 else 's'} are placed by number: pods there do not say which "
        "GPUs they hold, the kubelet picks free ones."
    ]


def _unserved(plan: Plan) -> list[str]:
    if not plan.routing:
        return [f"The routing table is empty: no request reaches {_a(plan.form.row.part)}."]
    if plan.form.row.pooled:  # every bucket has its pools: a plan without them is refused before
        return []
    everyone = IslandGroup(gpu="", phase=None, islands=plan.islands)
    return [
        f"Only {percent(share)} of the requests of {interval.label} tokens are routed in {phase}."
        for phase in PHASES
        for interval, share in zip(intervals(plan), shares(plan, phase, [everyone])[0], strict=True)
        if share < 1 - SHARE_TOLERANCE
    ]


def _cut_short(plan: Plan) -> list[str]:
    if not plan.search.interrupted:
        return []
    settings = plan.scenario.search
    planned = settings.iterations * settings.batch_size
    return [f"The search was **interrupted** after {len(plan.search.trials)} of {planned} layouts: the best so far."]


def _troubled_rounds(plan: Plan) -> list[str]:
    return [f"Round {r.iteration} of the search: {escaped(r.note)}." for r in plan.search.rounds if r.note]


def _unproven(plan: Plan) -> list[str]:
    if plan.optimal:
        return []
    limit = plan.scenario.assignment.work_limit
    return [f"The solver stopped at its work limit ({limit:g}): the assignment is **not proven optimal**."]


def _beside(plan: Plan) -> list[str]:
    """An estimate that its own left-out measurements do not bear out."""
    banded = banded_rate(plan)
    if banded is None or not beside(banded):
        return []
    slower = "slower" if banded.high < banded.value else "faster"
    return [
        f"Most measurements of these GPU types and models were **{slower} than predicted**: the rate to expect is "
        f"{banded.range} requests/s."
    ]


def _reference(plan: Plan) -> list[str]:
    if plan.scenario.cost.mode is not CostMode.REFERENCE:
        return []
    return ["Cost mode `reference`: see the warning above; set cost mode `default` for physical rates."]


def _deviation(plan: Plan) -> list[str]:
    settings = plan.scenario.assignment
    if settings.formulation is not Formulation.DEVIATION:
        return []
    weights = f"tau {settings.tau:g}, M {settings.deviation_weight:g}{'' if settings.idle else ', no island idle'}"
    return [
        f"Deviation formulation ({weights}): it reports min(R\\_prefill, R\\_decode) = "
        f"{rate(plan.objective_rps)} requests/s for itself, with a total deviation of "
        f"{rate(plan.deviation_rps)} requests/s from the target mix. The whole mix in its target proportions "
        f"is served at {rate(plan.throughput_rps)} requests/s, the figure of the headline."
    ]


def _coarse(plan: Plan) -> list[str]:
    """Times are taken at the middle of a range; where prompts lie elsewhere, the rates are not theirs. Pools are priced
    over the mix of their bucket."""
    if plan.form.row.pooled:
        return []
    cut = intervals(plan)
    middle = sum(interval.probability * (interval.start + interval.end) / 2 for interval in cut)
    mean = plan.scenario.workload.mean_input_tokens
    if not cut or abs(middle - mean) <= COARSE * mean:
        return []
    return [
        f"Ranges of {plan.scenario.ranges.width} tokens are **too coarse**: their middles average {middle:.0f} tokens, "
        f"the prompts {mean:.0f}. Choose a smaller ranges.width."
    ]


def _load(plan: Plan) -> list[str]:
    arrival = plan.scenario.workload.arrival_rps
    if not arrival or plan.throughput_rps <= 0:
        return []
    load = arrival / plan.throughput_rps
    arriving = f"Requests arrive at {rate(arrival)}/s"
    if load > 1:
        return [f"{arriving}, **more than the fleet serves**: it carries {percent(1 / load)} of the traffic."]
    return [f"{arriving}: {percent(load)} of what the fleet can serve."]


def _a(noun: str) -> str:
    return f"an {noun}" if noun[0] in "aeiou" else f"a {noun}"


def _idle(plan: Plan) -> list[str]:
    return [f"{_islands(g)} idle: {_reasons(g)}." for g in groups(plan) if g.phase is None]


def _islands(group: IslandGroup) -> str:
    verb = "is" if len(group.islands) == 1 else "are"
    return f"{counted(len(group.islands), 'island')} of {span(group.sizes)} {escaped(group.gpu)} {verb}"


def _reasons(group: IslandGroup) -> str:
    reasons = sorted({i.note for i in group.islands if i.note})
    return _clause("; ".join(reasons)) or "no reason given"


def _clause(text: str) -> str:
    """A foreign sentence, made to fit into one of ours."""
    return escaped(text.strip().rstrip("."))


def _outside(plan: Plan) -> list[str]:
    placed = Counter[str]()
    for island in plan.islands:
        placed[island.gpu] += island.size
    unused = {gpu: count - placed[gpu] for gpu, count in plan.fleet.items()}  # what is on offer alone is no loss
    where = f"In no {plan.form.row.part}"
    return [f"{where}: {counted(count, 'GPU')} of type {escaped(gpu)}." for gpu, count in unused.items() if count]


def _remarks(plan: Plan) -> list[str]:
    remarks = Counter((i.gpu, i.note) for i in plan.islands if i.phase is not None and i.note)
    noun = plan.form.row.part
    return [f"{escaped(gpu)} ({counted(count, noun)}): {_clause(note)}." for (gpu, note), count in remarks.items()]


def _failures(plan: Plan) -> list[str]:
    errors = Counter(t.error for t in plan.search.trials if t.error)
    return [f"{counted(count, 'trial')} failed: {_clause(error)}." for error, count in errors.most_common(3)]
