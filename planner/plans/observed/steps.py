"""Step times that can be taken from what a running island tells, in the form of measured steps.

| symbol | meaning | unit | source |
|---|---|---|---|
| b | token budget of a rank's prefill step | tokens | the plan's island |
| r | prompt tokens that a rank computes, no cache having them | tokens/s | `COMPUTED` over attention groups |
| L | length that costs as much a token as the mix: E[n^2] / E[n] of the plan's, scaled | tokens | the mean prompt |
| phi | rate of a prefill pool behind a router over that of its steps | 1 | `cost.pool_share` |
| t | prefill step while requests wait, so that steps are full: phi b / r | ms | |
| u, k | share of the time with running requests; running requests of a group | 1 | `BUSY`, `RUNNING` |
| batch | of a decode step: k / u, sequences of a group while it works | 1 | |

A decode step lasts as long as a token: the mean TPOT. Steps of prefill with nobody waiting are part full, those of
servers that do both phases are mixed: no time of one full step follows from either, and none is made up.
"""

from planner.cost import CostContext, pool_share, predict_ms, require_possible
from planner.domain import CostMode, CostSource, GpuSpec, Measurement, Phase, Plan, PlannedIsland
from planner.domain.serving.observed import ObservedIsland, Quantity
from planner.errors import InputError
from planner.plans.observed.loads import Loads
from planner.units import MS_PER_S

BACKLOGGED, BUSY = 0.9, 0.5
"""Shares of the time that requests must wait (prefill) or run (decode) for a step time to be taken."""

_SAME_COUNT = 0.01


def observed_island(loads: Loads, island: PlannedIsland, row: int) -> ObservedIsland:
    """What one island tells, its step time included where one can be taken."""
    plan, rate = loads.plan, loads.rate_rps
    assert island.phase is not None
    ranks = loads.value(island.id, Quantity.RANKS)
    reason, measurement = why_not(loads, island), None
    if not reason:
        measurement = (
            _prefill_step(loads, island, row) if island.phase is Phase.PREFILL else _decode_step(loads, island, row)
        )
    predicted = None
    if measurement is not None:
        gpu, model = _gpu(plan, island), plan.scenario.model
        try:
            require_possible(measurement, gpu, model)
            predicted = predict_ms(measurement, gpu, model, plan.scenario.cost.calibration)
        except InputError as error:
            reason, measurement = f"What it tells cannot be: {error.message.partition(': row ')[2] or error}", None
    return ObservedIsland(
        island=island.id,
        gpu=island.gpu,
        phase=island.phase,
        requests_rps=loads.value(island.id, Quantity.REQUESTS) or 0.0,
        planned_rps=island.rate_rps * rate / plan.throughput_rps if plan.throughput_rps else 0.0,
        busy=None if island.phase is Phase.PREFILL else loads.value(island.id, Quantity.BUSY),
        backlog=loads.value(island.id, Quantity.BACKLOG),
        running=loads.value(island.id, Quantity.RUNNING),
        waiting=loads.value(island.id, Quantity.WAITING),
        ranks=ranks,
        planned_ranks=_ranks(island),
        measurement=measurement,
        predicted_ms=predicted,
        why_not=reason,
    )


def why_not(loads: Loads, island: PlannedIsland) -> str:
    """Why no step time can be taken, a sentence; empty where one can."""
    cost = loads.plan.scenario.cost
    if cost.mode is CostMode.REFERENCE or cost.source is not CostSource.ANALYTIC:
        return "The plan's times come from no formulas that a calibration could mend."
    if island.phase is Phase.MIXED:
        return "Its steps do both phases: neither's own time follows from what it tells."
    return _why_no_prefill(loads, island) if island.phase is Phase.PREFILL else _why_no_decode(loads, island)


def _why_no_prefill(loads: Loads, island: PlannedIsland) -> str:
    backlog, ranks = loads.value(island.id, Quantity.BACKLOG), loads.value(island.id, Quantity.RANKS)
    if (
        backlog is None
        or not loads.value(island.id, Quantity.COMPUTED)
        or not loads.value(island.id, Quantity.PROMPT_TOKENS)
    ):
        return "Its engine tells too little: computed prompt tokens and waiting requests are needed."
    if backlog < BACKLOGGED:
        return (
            f"Requests waited {backlog:.0%} of the time: its steps were part full. Full ones need a time with requests "
            f"waiting {BACKLOGGED:.0%} of it."
        )
    if ranks is None or abs(ranks - _ranks(island)) > _SAME_COUNT * _ranks(island):
        return f"{ranks or 0:g} of its {_ranks(island)} attention groups are scraped: the rate of one is not known."
    if _mean_prompt(loads, island) > _budget(loads.plan, island):
        return "Its prompts are longer than a step: what one step costs does not follow from their rate."
    return ""


def _why_no_decode(loads: Loads, island: PlannedIsland) -> str:
    busy, running = loads.value(island.id, Quantity.BUSY), loads.value(island.id, Quantity.RUNNING)
    tpot = loads.histogram([island.id], Quantity.TPOT)
    if busy is None or not running or tpot is None or not tpot.mean or not loads.value(island.id, Quantity.REQUESTS):
        return "Its engine tells too little: the sum of TPOT and running requests are needed."
    if busy < BUSY:
        return f"It idles: it worked {busy:.0%} of the time, where at least {BUSY:.0%} are needed."
    if loads.plan.scenario.cost.with_drafted(island.drafted).drafting.drafted:
        return "It drafts tokens: how many a step yields is not told, so a step's time is not, either."
    return ""


def _prefill_step(loads: Loads, island: PlannedIsland, row: int) -> Measurement:
    computed = loads.value(island.id, Quantity.COMPUTED) or 0.0
    tokens = loads.value(island.id, Quantity.PROMPT_TOKENS) or 0.0
    budget, cached = _budget(loads.plan, island), max(0.0, 1 - computed / tokens)
    length = max(1, round(_mean_prompt(loads, island) * _stretch(loads.plan, island)))
    return _measurement(
        loads.plan,
        island,
        row,
        length=length,
        batch=budget / (length * (1 - cached)),
        ms=_pool_share(loads.plan, island) * budget / (computed / _ranks(island)) * MS_PER_S,
        kv_cache_rate=cached or None,
    )


def _decode_step(loads: Loads, island: PlannedIsland, row: int) -> Measurement:
    requests = loads.value(island.id, Quantity.REQUESTS) or 0.0
    answers = (loads.value(island.id, Quantity.GENERATED) or 0.0) / requests
    busy, running = loads.value(island.id, Quantity.BUSY) or 1.0, loads.value(island.id, Quantity.RUNNING) or 0.0
    tpot = loads.histogram([island.id], Quantity.TPOT)
    assert tpot is not None
    return _measurement(
        loads.plan,
        island,
        row,
        length=max(1, round(_mean_prompt(loads, island) + answers / 2)),
        batch=max(1.0, running / busy),
        ms=(tpot.mean or 0.0) * MS_PER_S,
        kv_cache_rate=None,
    )


def _measurement(
    plan: Plan, island: PlannedIsland, row: int, *, length: int, batch: float, ms: float, kv_cache_rate: float | None
) -> Measurement:
    parallel, scenario = island.parallel, plan.scenario
    assert parallel is not None
    assert island.phase is not None
    overlapped = scenario.cost.two_micro_batches if island.overlapped is None else island.overlapped
    return Measurement(
        gpu=island.gpu,
        model=scenario.model.name,
        phase=island.phase,
        tp=parallel.tp,
        dp=parallel.dp,
        pp=parallel.pp,
        ep=parallel.tp * parallel.dp if scenario.model.experts else 1,
        length=length,
        batch=batch,
        ms=ms,
        kv_cache_rate=kv_cache_rate,
        two_micro_batches=overlapped,
        balanced=scenario.cost.balanced_experts or None,
        engine=scenario.cost.engine,
        source=f"island {island.id} of plan {scenario.name}, observed",
        row=row,
    )


def _gpu(plan: Plan, island: PlannedIsland) -> GpuSpec:
    return plan.scenario.inventory.item(island.gpu).gpu


def _ranks(island: PlannedIsland) -> int:
    assert island.parallel is not None
    return island.parallel.replicas * island.parallel.dp


def _pool_share(plan: Plan, island: PlannedIsland) -> float:
    """What the plan takes off the rate of full steps, so that the same is not taken for slower kernels."""
    return pool_share(CostContext(gpu=_gpu(plan, island), model=plan.scenario.model, settings=plan.scenario.cost))


def _budget(plan: Plan, island: PlannedIsland) -> int:
    return island.tokens_per_step or plan.scenario.cost.max_tokens_per_step


def _mean_prompt(loads: Loads, island: PlannedIsland) -> float:
    requests = loads.value(island.id, Quantity.REQUESTS) or 0.0
    return (loads.value(island.id, Quantity.PROMPT_TOKENS) or 0.0) / requests if requests else 0.0


def _stretch(plan: Plan, island: PlannedIsland) -> float:
    """E[n^2] / E[n]^2 of the prompts that the plan sends to the island: attention reads each token's own prompt."""
    spans = [
        (route.range_start, route.range_end) for route in plan.routing if route.island == island.id and route.share
    ]
    workload = plan.scenario.workload
    pairs = [
        (tokens, share)
        for tokens, share in zip(workload.input_tokens, workload.probabilities, strict=True)
        if any(start <= tokens < end for start, end in spans)
    ]
    weight = sum(share for _, share in pairs)
    if not weight:
        return 1.0
    mean = sum(tokens * share for tokens, share in pairs) / weight
    return sum(tokens**2 * share for tokens, share in pairs) / weight / mean**2 if mean else 1.0
