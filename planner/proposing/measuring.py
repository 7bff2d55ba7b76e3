"""What to measure next: the benchmark runs that are expected to save most of what deciding now may lose.

| symbol | meaning | unit |
|---|---|---|
| R[k, l] | what fleet l serves within the levels in draw k of the paces (`evaluation.doubts.drawn`) | requests/s |
| P[l] | its rent; of the fleet that is best as predicted P, which serves R | USD/hour |
| v | rent of a request/s, P / R | USD/hour |
| T | rate that is to be served (objective target) | requests/s |
| b | 1; of split fleets, where the form is free, what is left after the cost model's bias (`worth_of`) | 1 |
| V[k, l] | b R; of a target min(b R, T) - (P[l] - P) / v; of most per USD b R P / P[l] | requests/s |

A decision is a fleet of pools: what is planned as predicted, where a GPU type is as slow or as fast in a phase as P10
and P90 of its band, and of each type alone. All are judged in the same draws, requests routed anew. A rate that is not
served is worth what serving it costs, v. What runs are worth follows by `planner.cost.residuals.information`.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Self

from planner.cost import judged_runs
from planner.cost.residuals.band_draws import errors_of
from planner.cost.residuals.information import Decisions, shown_noise
from planner.cost.residuals.pace_draws import pace_dimensions, pace_scores, uniform_draws
from planner.domain import (
    Band,
    BenchmarkRun,
    BucketPool,
    Load,
    MeasuringAdvice,
    Metric,
    NamedRun,
    ObjectiveSettings,
    Phase,
    Pool,
    Precision,
    ProposedRun,
    Scenario,
    ServerConfig,
    ServingForm,
    worth_of,
)
from planner.domain.fleets import on_gpus
from planner.errors import InfeasibleError, InputError, SolverError
from planner.evaluation.buckets.prices import BucketPrices
from planner.evaluation.buckets.service import BucketService
from planner.evaluation.doubts.drawn import at_paces, bands_of_types, rates_in_draws
from planner.processes.interrupts import check
from planner.proposing.buckets.robust import as_started
from planner.proposing.certificate import single
from planner.proposing.explaining.replanning import pools_of
from planner.proposing.feasibility import posed

DRAWS = 128
FEWEST_DRAWS = 16
MOST_DRAWS = 1024
MOST_RUNS = 8
DAYS = 30.0
MOST_DECISIONS = 6
NEGLIGIBLE = 1e-3  # of the rate: runs that save less, and make none after them worth more, change no decision
PROMPT_SHARE = 8  # a run about decode takes in an eighth of its mean context, and answers the rest
LEAST_PROMPT = 16
START_HOURS = 0.5
"""Of a run: to load weights, compile kernels and warm up. A judgement: DeepSeek's 690 GB at 1 GB/s take 12 minutes."""

_SCORE = 1.2815515655446004  # of P90

CanRun = Callable[[ProposedRun], bool]
Fleet = tuple[BucketPool, ...]
_Key = tuple[str, Phase]


def what_to_measure(
    scenario: Scenario,
    *,
    runs: int = 3,
    draws: int = DRAWS,
    seed: int = 0,
    days: float = DAYS,
    can_run: CanRun = lambda _: True,
) -> MeasuringAdvice:
    """The `runs` benchmark runs that are worth most beyond what they cost over so many days of operation, one after the
    other; fewer where fewer change the decision.

    Only what `can_run` is proposed: an engine does not serve every configuration. Raises InputError where numbers are
    out of bounds or no band says how far speeds may be off, and as a plan does; InfeasibleError where levels hold in no
    draw.
    """
    _require_bounds(runs, draws, days)
    _require_doubt(scenario)
    question = posed(scenario)
    bands = bands_of_types(BucketPrices(question))
    alike, points = scenario.doubt.alike, uniform_draws(draws, pace_dimensions(list(bands)), seed)
    scores = pace_scores(list(bands), points, alike)
    paces = {key: errors_of(bands[key], row) for key, row in scores.items()}
    plainly = replace(question, scenario=replace(scenario, objective=ObjectiveSettings()))
    service = BucketService(plainly)
    fleets = _fleets(scenario, service, bands)
    rates = rates_in_draws(plainly, fleets, paces)
    worths = _Worths.of(scenario, fleets, rates, service.priced(fleets[0]).rate_rps)
    candidates = dict(_candidates(scenario, fleets, bands, can_run))
    noises = {key: shown_noise(bands[key]) for key in candidates}
    decisions = Decisions(worths.values, scores, noises, seed, alike)
    means = decisions.means.tolist()
    best = means.index(max(means))
    if not max(rates[best]) > 0:
        raise InfeasibleError(
            f"scenario {scenario.name}: the plan serves nothing in all {draws} draws of how fast servers are under its "
            "service levels.",
            hint="Loosen slo: it holds as predicted alone.",
        )

    def net(key: _Key, worth: float) -> float:
        usd = worths.usd_per_rps_hour
        return 24 * days * usd * worth - candidates[key].cost_usd if usd else worth

    chosen = decisions.best_runs(runs, net)
    while chosen and chosen[-1].worth < NEGLIGIBLE * means[best]:
        chosen.pop()
    return MeasuringAdvice(
        label=_label(fleets[best]),
        decisions=len(fleets),
        draws=draws,
        days=days,
        expected_rps=fmean(rates[best]),
        regret_rps=decisions.regret,
        usd_per_rps_hour=worths.usd_per_rps_hour,
        runs=tuple(replace(candidates[choice.key], worth_rps=choice.worth) for choice in chosen),
        considered=len(candidates),
    )


def _require_bounds(runs: int, draws: int, days: float) -> None:
    if not 1 <= runs <= MOST_RUNS:
        raise InputError(f"runs: must be from 1 to {MOST_RUNS}, got {runs}.", hint="Two or three are worth their time.")
    if not FEWEST_DRAWS <= draws <= MOST_DRAWS:
        raise InputError(
            f"draws: must be from {FEWEST_DRAWS} to {MOST_DRAWS}, got {draws}.",
            hint=f"{DRAWS} tell runs apart; more are slower and firmer.",
        )
    if not 0 < days < math.inf:
        raise InputError(f"days: must be above 0, got {days:g}.", hint=f"{DAYS:g} is a month.")


def _require_doubt(scenario: Scenario) -> None:
    """Raises InputError where rates have no band, plans no buckets, or the objective is neither a rate nor money."""
    cost, objective = scenario.cost, scenario.objective
    if not scenario.bucketed:
        raise InputError(
            f"scenario {scenario.name}: routing.form: must be buckets to ask what to measure, got "
            f"{scenario.beyond_buckets or scenario.routing_form.value}.",
            hint="Set routing.form to buckets, and cost.mode to default.",
        )
    if cost.source is not type(cost)().source:
        raise InputError(
            f"scenario {scenario.name}: cost.source: must be analytic to ask what to measure, got {cost.source.value}: "
            "a profile is measured already.",
            hint="Leave cost.source and cost.profile out.",
        )
    if objective.kind.row.in_watts:
        raise InputError(
            f"scenario {scenario.name}: objective.kind: must be one of rate or money to ask what to measure, got "
            f"{objective.kind.value}.",
            hint="Leave objective out, or choose target with what has to be served.",
        )


def _fleets(scenario: Scenario, service: BucketService, bands: Mapping[_Key, Band]) -> list[Fleet]:
    """Decisions: the one that is best as predicted first, then those of most plans. Raises as a plan does."""
    plain = replace(scenario, objective=single(scenario.objective), cluster=None)

    def fleet(planned: Scenario) -> Fleet:
        pools = (replace(pool, share=1.0, weight=0.0) for pool in pools_of(planned).pools)
        return as_started(service.priced(pools))

    first = fleet(plain)
    plans: Counter[Fleet] = Counter()
    for other in _elsewise(plain, bands):
        check()
        with suppress(InfeasibleError, SolverError, InputError):  # what cannot be planned proposes nothing
            plans[fleet(other)] += 1
    return [first, *(each for each, _ in plans.most_common() if each != first)][:MOST_DECISIONS]


def _elsewise(scenario: Scenario, bands: Mapping[_Key, Band]) -> Iterator[Scenario]:
    """Each GPU type alone; and servers of a type and phase as slow as P10 of their band, or as fast as P90."""
    counts = scenario.inventory.counts
    if len(counts) > 1:
        yield from (on_gpus(scenario, {gpu: count}) for gpu, count in counts)
    yield from (at_paces(scenario, {key: pace}) for key, band in bands.items() for pace in (band.low, band.high))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Worths:
    """`values`: V, a row a draw; `usd_per_rps_hour`: v, 0 where nothing has a price."""

    values: list[list[float]]
    usd_per_rps_hour: float

    @classmethod
    def of(cls, scenario: Scenario, fleets: Sequence[Fleet], rates: Sequence[Sequence[float]], rate_rps: float) -> Self:
        """Of fleets whose rates in the draws are these; `rate_rps`: R."""
        objective, rents = single(scenario.objective), [_rent(scenario, fleet) for fleet in fleets]
        usd = rents[0] / (objective.target_rps if objective.minimises else rate_rps)
        columns = []
        for fleet, row, rent in zip(fleets, rates, rents, strict=True):
            unbiased = [_unbiased(scenario, fleet, rate) for rate in row]
            if objective.minimises:
                columns.append([min(rate, objective.target_rps) - (rent - rents[0]) / usd for rate in unbiased])
            elif objective.kind.row.per_charge:
                columns.append([rate * rents[0] / rent for rate in unbiased])
            else:
                columns.append(unbiased)
        return cls(values=[list(row) for row in zip(*columns, strict=True)], usd_per_rps_hour=usd)


def _unbiased(scenario: Scenario, fleet: Fleet, rate_rps: float) -> float:
    """What a rate counts as where split fleets are compared with aggregated ones."""
    aggregated = all(pool.phase is Phase.MIXED for pool in fleet)
    if scenario.serving_form is not ServingForm.AUTO or aggregated:
        return rate_rps
    return worth_of(rate_rps, ServingForm.SPLIT)


def _rent(scenario: Scenario, fleet: Fleet) -> float:
    """USD/hour of its GPUs."""
    return sum(scenario.inventory.item(pool.gpu).rent_usd_per_gpu_hour * pool.gpus for pool in fleet)


def _label(fleet: Fleet) -> str:
    """`2 x 8 H20 mixed`: servers x GPUs of one."""
    pools: Counter[tuple[int, str, Phase]] = Counter()
    for pool in fleet:
        pools[pool.server.parallel.devices, pool.gpu, pool.phase] += pool.count
    return ", ".join(f"{count} x {devices} {gpu} {phase.value}" for (devices, gpu, phase), count in pools.items())


def _candidates(
    scenario: Scenario, fleets: Sequence[Fleet], bands: Mapping[_Key, Band], can_run: CanRun
) -> Iterator[tuple[_Key, ProposedRun]]:
    """A run of each GPU type and phase that decisions deploy: of the configuration that most of their GPUs have."""
    used: Counter[tuple[_Key, ServerConfig]] = Counter()
    for fleet in fleets:
        for pool in fleet:
            used[(pool.gpu, pool.phase), pool.server] += pool.gpus
    for key in sorted({key for key, _ in used if key in bands}):
        servers = sorted(
            (server for other, server in used if other == key), key=lambda server: (-used[key, server], server)
        )
        proposed = (_proposed(scenario, key, server, bands[key]) for server in servers)
        run = next((run for run in proposed if run is not None and can_run(run)), None)
        if run is not None:
            yield key, run


def _proposed(scenario: Scenario, key: _Key, server: ServerConfig, band: Band) -> ProposedRun | None:
    """The run of a server; None of pipelines, whose results no calibration reads, and where nothing is predicted."""
    (gpu, phase), parallel, workload = key, server.parallel, scenario.workload
    prompt, answer = workload.mean_input_tokens, workload.mean_output_tokens
    if parallel.pp > 1:
        return None
    tokens_in, tokens_out = _lengths(phase, prompt, answer, scenario.model.max_context - 1)
    if phase is Phase.PREFILL:  # as many prompts wait as a step takes
        batch = max(1, math.ceil(server.tokens_per_step / tokens_in))
        concurrency, rounds = 2 * batch * parallel.dp, 16
    else:
        batch = max(1, server.batch_size)
        concurrency, rounds = batch * parallel.dp, 4  # beginning and end are not of the loop
    tokens_per_s = _predicted_tokens_per_s(scenario, key, server, (tokens_in, tokens_out), concurrency)
    if not tokens_per_s:
        return None
    counted = tokens_in if phase is Phase.PREFILL else tokens_out
    hours = START_HOURS + rounds * concurrency * counted / tokens_per_s / 3600
    return ProposedRun(
        gpu=gpu,
        phase=phase,
        parallel=parallel,
        batch_size=batch,
        input_tokens=tokens_in,
        output_tokens=tokens_out,
        concurrency=concurrency,
        requests=rounds * concurrency,
        predicted_tokens_per_s=tokens_per_s,
        spread=math.log(band.high / band.low) / (2 * _SCORE),
        hours=hours,
        cost_usd=hours * parallel.devices * scenario.inventory.item(gpu).rent_usd_per_gpu_hour,
    )


def _predicted_tokens_per_s(
    scenario: Scenario, key: _Key, server: ServerConfig, tokens: tuple[int, int], concurrency: int
) -> float:
    """What `planner cost accuracy` predicts of the run, of the whole server; 0 where it predicts nothing."""
    (gpu, phase), parallel, model = key, server.parallel, scenario.model
    drafted = scenario.cost.drafting.drafted if server.drafted is None else server.drafted
    run = BenchmarkRun(
        row=1,
        gpu=gpu,
        model=model.name,
        load=Load.CLOSED_LOOP,
        decode=Pool(tp=parallel.tp, dp=parallel.dp, ep=parallel.stage_devices if model.routed_experts else 1),
        input_tokens=tokens[0],
        output_tokens=tokens[1],
        measured=((Metric.OUTPUT_RATE, 1.0),),
        concurrency=concurrency,
        engine=scenario.cost.engine or "vllm",
        precision=Precision(
            weight_bytes=model.weight_bytes,
            expert_bytes=model.expert_bytes,
            kv_bytes=model.kv_bytes,
            mtp_tokens=drafted,
        ),
    )
    named = NamedRun(run=run, gpu=scenario.inventory.item(gpu).gpu, model=model)
    (figure,) = judged_runs([named], scenario.cost.calibration)
    requests = (figure.predicted or 0.0) * parallel.devices / tokens[1]
    return requests * (tokens[0] if phase is Phase.PREFILL else tokens[1])


def _lengths(phase: Phase, prompt: float, answer: float, longest: int) -> tuple[int, int]:
    """Tokens in and out of a run that is nearly all of one phase: prompts as they are and one token, or short prompts
    whose answers have the same mean context; of both phases requests as they are."""
    if phase is Phase.PREFILL:
        return min(longest - 1, round(prompt)), 1
    if phase is Phase.MIXED:
        tokens_in = min(max(1, round(prompt)), longest - 2)
        return tokens_in, max(2, min(round(answer), longest - tokens_in))
    context = prompt + answer / 2
    tokens_in = min(max(LEAST_PROMPT, round(context / PROMPT_SHARE)), longest // 2)
    return tokens_in, max(2, min(round(2 * (context - tokens_in)), longest - tokens_in))
