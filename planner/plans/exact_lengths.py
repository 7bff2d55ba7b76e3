"""A finished plan at every exact prompt length: what cutting the lengths into ranges was worth.

| symbol | meaning | unit |
|---|---|---|
| s, q(s) | exact length, its probability | tokens, 1 |
| a[i, j] | share of range j that goes to island i (the routing table) | 1 |
| b[i](s) | rate of island i on prompts of s tokens alone, at the plan's degrees | requests/s |
| u[i, j] | share of its time that an island may spend on a range (1: all) | 1 |
| w[i, j] | time for one request of the mix: sum over s in j of q(s) / b[i](s) | s |
| n, B | prompts of a rank and prefill step, sequences of an attention group | 1 |
| N | mean answer: of all prompts, as the plan has it, or of those of s tokens | tokens |
| phi | rate of a prefill pool over that of its steps | 1 |

throughput = min over islands of 1 / sum_j a w / u
prefill b = phi r dp n pp 1000 / t(s, n), reference 1000 / t      decode b = r dp B 1000 / (N mean TPOT), reference r B
n is the plan's, or fewer where the tokens of a step would pass the budget; B is the plan's. Servers of pools have
budgets of their own, which they fill (n need not be whole), and hide their communication or not, whatever the length.
Neither the performance table nor the solver is asked; only the cost stage's times of single steps.
Source: Rignall 2025, section 5.2.2 (there at the best degrees of every length; here at those that the plan deploys).
"""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from planner.cost import CostContext, Steps, decode_time, open_backend, pool_share, prefill_time
from planner.cost.arrays import Array, Numbers, as_array
from planner.cost.prefix_hits import fresh_tokens, number_of_hits, shape_hits
from planner.cost.serving import Buckets, MixedServers
from planner.cost.step import step_cost
from planner.domain import (
    PHASES,
    CostMode,
    CostSource,
    LengthProfile,
    ParallelConfig,
    Phase,
    Plan,
    PlannedIsland,
    Reach,
    Route,
    Scenario,
)
from planner.errors import InputError
from planner.units import MS_PER_S

ANSWER_POINTS = 16  # positions in an answer at which TPOT is evaluated; every token of a shorter answer


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseEvaluation:
    """One phase: rates (requests/s) at exact lengths and at midpoints, the island that sets the exact one.

    `worst_range`: (start, end) of the range whose exact lengths take the most time beyond what its midpoint says, and
    `worst_range_difference` how much that is, relative to its time at the midpoint. Negative where none takes more.
    """

    phase: Phase
    throughput_rps: float
    binned_rps: float
    worst_island: str
    worst_range: tuple[int, int]
    worst_range_difference: float

    @property
    def difference(self) -> float:
        """Exact less binned rate, relative to the binned one."""
        return self.throughput_rps / self.binned_rps - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactEvaluation:
    """What a plan serves at exact lengths, and at midpoints with the same routing (requests/s).

    `busy`: share of its time that each island of the plan with a phase is busy at the plan's own throughput.
    `throughput_rps` is 0 where some length cannot be served at all on an island that it is routed to.
    """

    per_phase: tuple[PhaseEvaluation, ...]
    busy: tuple[tuple[str, float], ...]

    @property
    def slowest(self) -> PhaseEvaluation:
        """The phase that limits the exact rate."""
        return min(self.per_phase, key=lambda evaluation: evaluation.throughput_rps)

    @property
    def throughput_rps(self) -> float:
        """Highest rate of the mix at which no island exceeds its time."""
        return self.slowest.throughput_rps

    @property
    def binned_rps(self) -> float:
        """The same at the ranges' midpoints; the plan's throughput, or more where its routing leaves room."""
        return min(evaluation.binned_rps for evaluation in self.per_phase)

    @property
    def difference(self) -> float:
        """Exact less binned throughput, relative to the binned one."""
        return self.throughput_rps / self.binned_rps - 1

    @property
    def worst_island(self) -> str:
        """The island that limits the exact rate."""
        return self.slowest.worst_island

    @property
    def worst_range(self) -> tuple[int, int]:
        """Of the limiting phase, the range that its midpoint flatters most."""
        return self.slowest.worst_range


def evaluate_exactly(
    plan: Plan, usable_time: Mapping[tuple[str, int], float] | None = None, *, own_answers: bool | None = None
) -> ExactEvaluation:
    """Throughput of `plan` at every exact length of its workload.

    `usable_time[island, range start]`: the share u of its time that an island may spend on a range, 1 where missing.
    `own_answers`: prompts of each length are answered at their own mean length, not at that of all prompts; None: as
    the plan's cost mode counts (own answers by default where they are known, those of all prompts in reference mode).
    Raises InputError where the workload does not know these answers.
    """
    usable = usable_time or {}
    if own_answers is None:
        own_answers = plan.scenario.cost.mode is CostMode.DEFAULT and bool(plan.scenario.workload.output_tokens)
    exact, binned = _exact_times(plan, own_answers), _midpoint_times(plan)
    return ExactEvaluation(
        per_phase=tuple(_phase(plan, phase, exact, binned, usable) for phase in PHASES),
        busy=tuple(
            (name, seconds * plan.throughput_rps) for name, seconds in _by_island(plan.routing, exact, usable).items()
        ),
    )


Key = tuple[str, int]  # island, start of a range


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployed:
    """What an island's rates depend on. `tokens_per_step`: of a rank of a pool's prefill server (0: the scenario's);
    `overlapped`: whether a pool's servers hide their communication (None: where that is faster); `drafted`: tokens a
    step, where the pool chose them."""

    gpu: str
    phase: Phase
    parallel: ParallelConfig
    reach: Reach | None = None
    tokens_per_step: int = 0
    overlapped: bool | None = None
    drafted: int | None = None

    @classmethod
    def of(cls, island: PlannedIsland) -> "Deployed":
        """An island with a phase."""
        assert island.parallel is not None, "the audit has seen that islands with routes have degrees"
        assert island.phase is not None, "as well as a phase"
        return cls(
            gpu=island.gpu,
            phase=island.phase,
            parallel=island.parallel,
            reach=island.reach,
            tokens_per_step=island.tokens_per_step,
            overlapped=island.overlapped,
            drafted=island.drafted,
        )

    @property
    def fills(self) -> bool:
        """Whether steps take as many tokens as the budget allows, in parts of prompts."""
        return self.tokens_per_step > 0

    def priced(self, scenario: Scenario) -> Scenario:
        """The scenario where the island lies, with its budget."""
        budget = self.tokens_per_step or scenario.cost.max_tokens_per_step
        cost = scenario.cost.with_drafted(self.drafted)
        return replace(scenario, cost=replace(cost, reach=self.reach, max_tokens_per_step=budget))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Prompt:
    """Prompts of one length: their probability and their mean answer (tokens)."""

    tokens: int
    probability: float
    answer: float


def _phase(
    plan: Plan, phase: Phase, exact: Mapping[Key, float], binned: Mapping[Key, float], usable: Mapping[Key, float]
) -> PhaseEvaluation:
    routes = [route for route in plan.routing if route.phase is phase]
    busy, midpoint = _by_island(routes, exact, usable), _by_island(routes, binned, usable)
    worst = max(busy, key=lambda name: busy[name])
    by_range: dict[tuple[int, int], tuple[float, float]] = defaultdict(lambda: (0.0, 0.0))
    for route in routes:
        key, span = (route.island, route.range_start), (route.range_start, route.range_end)
        due, midpoint_s = by_range[span]
        by_range[span] = due + route.share * exact[key], midpoint_s + route.share * binned[key]
    span = max(by_range, key=lambda item: by_range[item][0] - by_range[item][1])
    due, midpoint_s = by_range[span]
    return PhaseEvaluation(
        phase=phase,
        throughput_rps=1 / busy[worst],
        binned_rps=1 / max(midpoint.values()),
        worst_island=worst,
        worst_range=span,
        worst_range_difference=due / midpoint_s - 1,
    )


def _by_island(routes: Sequence[Route], times: Mapping[Key, float], usable: Mapping[Key, float]) -> dict[str, float]:
    """Seconds of each island's usable time that one request of the mix takes."""
    busy: dict[str, float] = defaultdict(float)
    for route in routes:
        key = (route.island, route.range_start)
        busy[route.island] += route.share * times[key] / usable.get(key, 1.0)
    return dict(busy)


def _midpoint_times(plan: Plan) -> dict[Key, float]:
    return {(route.island, route.range_start): route.probability / route.capacity_rps for route in plan.routing}


def _exact_times(plan: Plan, own_answers: bool) -> dict[Key, float]:
    """w of every route. Islands that cannot be told apart are looked at once."""
    islands = {island.id: island for island in plan.islands}
    prompts = _prompts(plan.scenario.workload, own_answers)
    alike: dict[Deployed, list[Route]] = defaultdict(list)
    for route in plan.routing:
        alike[Deployed.of(islands[route.island])].append(route)
    times: dict[Key, float] = {}
    for deployed, routes in alike.items():
        spans = {(route.range_start, route.batch_size): route for route in routes}
        priced = deployed.priced(plan.scenario)
        by_span = dict(zip(spans, _times(priced, prompts, deployed, list(spans.values())), strict=True))
        times |= {(route.island, route.range_start): by_span[route.range_start, route.batch_size] for route in routes}
    return times


def _prompts(profile: LengthProfile, own_answers: bool) -> list[_Prompt]:
    """Every exact length that occurs."""
    if own_answers and not profile.output_tokens:
        raise InputError(
            f"workload {profile.name}: must know the mean answer of every prompt length, got none.",
            hint="Use a trace, or leave own_answers out.",
        )
    answers = profile.output_tokens if own_answers else (profile.mean_output_tokens,) * len(profile.input_tokens)
    rows = zip(profile.input_tokens, profile.probabilities, answers, strict=True)
    return [_Prompt(tokens=s, probability=q, answer=max(1.0, answer)) for s, q, answer in rows if q > 0]


def _times(
    scenario: Scenario, prompts: Sequence[_Prompt], deployed: Deployed, routes: Sequence[Route]
) -> Iterator[float]:
    """w of each of `routes`, which are of one GPU type, phase and configuration; inf where a length is not served."""
    members = [[p for p in prompts if route.range_start <= p.tokens < route.range_end] for route in routes]
    batches = [route.batch_size for route, in_range in zip(routes, members, strict=True) for _ in in_range]
    rates = iter(_rates(scenario, deployed, [prompt for in_range in members for prompt in in_range], batches))
    for in_range in members:
        yield math.fsum(
            prompt.probability / rate if rate > 0 else math.inf for prompt, rate in zip(in_range, rates, strict=False)
        )


def _rates(scenario: Scenario, deployed: Deployed, prompts: Sequence[_Prompt], batches: Sequence[int]) -> list[float]:
    """b of one island per length; 0 where the cost model has no answer (requests/s)."""
    ways = {Phase.PREFILL: _prefill_rates, Phase.DECODE: _decode_rates, Phase.MIXED: _mixed_rates}
    of_phase = ways[deployed.phase]
    rates: list[float] = of_phase(scenario, deployed, prompts, batches).tolist()
    return [rate if math.isfinite(rate) else 0.0 for rate in rates]


def rates_at(
    scenario: Scenario,
    deployed: Deployed,
    lengths: Sequence[int],
    batches: Sequence[int],
    answers: Sequence[float] = (),
) -> list[float]:
    """Rate of one island at each exact length with the batch size given for it (requests/s; 0: no answer).

    `answers`: mean answer to prompts of each length; without, they are as long as the workload's mean.
    """
    mean = scenario.workload.mean_output_tokens
    tokens = zip(lengths, answers or [mean] * len(lengths), strict=True)
    prompts = [_Prompt(tokens=s, probability=1.0, answer=max(1.0, answer)) for s, answer in tokens]
    return _rates(deployed.priced(scenario), deployed, prompts, batches)


def _prefill_rates(scenario: Scenario, deployed: Deployed, prompts: Sequence[_Prompt], batches: Sequence[int]) -> Array:
    spec, parallel = scenario.inventory.item(deployed.gpu).gpu, deployed.parallel
    cost, lengths = scenario.cost, _lengths(prompts)
    if cost.mode is CostMode.REFERENCE:
        ms = prefill_time(
            spec,
            lengths,
            tp=parallel.tp,
            dp=parallel.dp,
            kv_cache_rate=number_of_hits(cost),
            model=scenario.model,
            mode=cost.mode,
        ).total_ms
        return MS_PER_S / ms
    context = CostContext(gpu=spec, model=scenario.model, settings=cost)
    hits = shape_hits(context, lengths, parallel)
    budget = [max(1.0, cost.max_tokens_per_step / max(1e-6, new)) for new in fresh_tokens(lengths, hits).tolist()]
    batch = as_array([min(n, room if deployed.fills else int(room)) for n, room in zip(batches, budget, strict=True)])
    steps = _steps(Phase.PREFILL, parallel, lengths, batch.clip(min=1), cached=hits)
    started = parallel.replicas * parallel.dp * parallel.pp * batch
    return as_array(pool_share(context) * started * MS_PER_S / _step_ms(context, steps, deployed.overlapped))


def _step_ms(context: CostContext, steps: Steps, overlapped: bool | None) -> Array:
    """Step times as the plan's islands have them; `overlapped` as in `Deployed`."""
    if overlapped is None:
        return open_backend(context).step_ms(steps)
    return as_array(step_cost(context, steps, overlap=overlapped).total_ms)


def _decode_rates(scenario: Scenario, deployed: Deployed, prompts: Sequence[_Prompt], batches: Sequence[int]) -> Array:
    spec, parallel = scenario.inventory.item(deployed.gpu).gpu, deployed.parallel
    cost, model = scenario.cost, scenario.model
    answers, batch = as_array([prompt.answer for prompt in prompts]), as_array(batches)
    if cost.mode is CostMode.REFERENCE:
        answers = answers.round()
    points = min(ANSWER_POINTS, math.ceil(answers.max()))
    along = as_array([(k + 0.5) / points for k in range(points)])
    cached = _lengths(prompts)[:, None] + answers[:, None] * along - 0.5
    decoded = batch.clip(min=1)[:, None]
    if cost.mode is CostMode.REFERENCE:
        tpot = decode_time(
            spec,
            cached,
            tp=parallel.tp,
            batch_size=decoded,
            devices=parallel.devices,
            model=model,
            mode=cost.mode,
        ).total_ms.mean(axis=-1)
        return as_array(parallel.replicas * batch * MS_PER_S / (answers * tpot))
    context = CostContext(gpu=spec, model=model, settings=cost)
    tpot = _step_ms(context, _steps(Phase.DECODE, parallel, cached, decoded), deployed.overlapped).mean(axis=-1)
    return as_array(parallel.replicas * parallel.dp * batch * MS_PER_S / (answers * tpot))


def _mixed_rates(scenario: Scenario, deployed: Deployed, prompts: Sequence[_Prompt], batches: Sequence[int]) -> Array:
    spec, parallel, cost = scenario.inventory.item(deployed.gpu).gpu, deployed.parallel, scenario.cost
    context = CostContext(gpu=spec, model=scenario.model, settings=cost)
    buckets = Buckets.of_lengths(
        [max(1, prompt.tokens) for prompt in prompts],
        [prompt.probability for prompt in prompts],
        [prompt.answer for prompt in prompts],
    )
    options = [(replace(parallel, replicas=1), cost.max_tokens_per_step)]
    longest = round(max(prompt.answer for prompt in prompts))
    servers = MixedServers.of(context, options, buckets, longest, used=batches)
    return as_array(parallel.replicas * servers.rates_alone(buckets, batches)[0])


def _lengths(prompts: Sequence[_Prompt]) -> Array:
    """Tokens of each prompt; a synthetic one may have none, and is counted as one token."""
    return as_array([max(1, prompt.tokens) for prompt in prompts])


def _steps(phase: Phase, parallel: ParallelConfig, length: Array, batch: Array, cached: Numbers = 0.0) -> Steps:
    return Steps(
        phase=phase,
        tp=as_array(parallel.tp),
        dp=as_array(parallel.dp),
        pp=as_array(parallel.pp),
        length=length,
        batch=batch,
        cached=cached,
    )


def recounted_rps(plan: Plan) -> float | None:
    """The plan's rate with the difference that exact lengths make; None where islands' time is not all that limits, or
    a profile does not have every step of pools."""
    slo = plan.scenario.slo
    queues = slo.ttft_ms is not None or any(bound.ttft_ms is not None for bound in slo.ranges)
    measured = plan.scenario.cost.source is CostSource.TABULATED and bool(plan.outlook.pools)
    if queues or measured or plan.scenario.network is not None:
        return None
    return plan.throughput_rps * (1 + evaluate_exactly(plan).difference)
