"""Advice on what runs: found, rebuilt, held beside its metrics, and changed; and its folder.

advise.md, advise.json, advise.csv, changes.csv   what is told
services/NAME/                                    a run folder: the service as it runs
changes/1, 2, 3                                   run folders: the service after each change
calibrations/NAME.yaml, scenarios/NAME.yaml       to plan anew: `planner plan`
fleet.yaml                                        all services on one inventory, where there are several
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from planner.domain import Phase
from planner.domain.advice import Advice, AdvisedChange, ServiceAdvice
from planner.domain.serving.observed import ObservedSeries, Quantity
from planner.errors import InfeasibleError, InputError
from planner.files.plan.digests import with_seal
from planner.report.advice import ADVICE_FILES, advice_files
from planner.runs.live.advice.asking import ObservedService, observed_service, with_paces
from planner.runs.live.advice.changes import changes_of, cumulative, fewer_copies
from planner.runs.live.advice.finding import FoundEngines, RunningService
from planner.runs.live.advice.rebuilding import RebuiltService, Terms, rebuilt
from planner.runs.live.advice.states import Pooled, resized
from planner.runs.live.advice.writing import written_plans
from planner.units import MS_PER_S

FIRST = 3
"""Changes that are told in full."""
KINDS = (
    *ADVICE_FILES,
    *("services/NAME/plan.json", "changes/1/plan.json", "calibrations/NAME.yaml", "scenarios/NAME.yaml"),
    *("workloads/NAME.yaml", "fleet.yaml"),
)
"""Names of what a folder of advice may hold."""
_NEAR, _FULL, _OFTEN = 0.9, 0.9, 0.1
_OTHER_LENGTHS = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class AdvisedFolder:
    """The advice, and every file of its folder."""

    advice: Advice
    files: Mapping[str, bytes]
    warnings: tuple[str, ...] = ()


def advise(
    engines: FoundEngines,
    terms: Terms,
    series: Sequence[ObservedSeries],
    *,
    source: str,
    out: Path,
    tell: Callable[[str], None] = lambda _step: None,
) -> AdvisedFolder:
    """Everything, and the files that `out` is to have; nothing is written here. `series`: what metrics tell of the
    services; `tell` hears of each step.

    Raises InputError where a workload is missing or the terms name no service.
    """
    _require_named(terms, engines.services)
    if engines.services and not any(terms.has_workload(service.name) for service in engines.services):
        terms.workload(engines.services[0].name)
    services: list[ServiceAdvice] = []
    plans: list[RebuiltService] = []
    changes: list[tuple[AdvisedChange, ...]] = []
    gaps, at_hand = list(engines.gaps), terms
    for service in engines.services:
        tell(f"judging {service.name}")
        try:
            advice_of_service, now = judged(service, at_hand, series)
            of_service = changes_of(now, at_hand)
        except (InfeasibleError, InputError) as error:
            gaps += [(deployment, (error.message,)) for deployment in service.deployments]
            continue
        services.append(advice_of_service)
        plans.append(now)
        changes.append(of_service)
        at_hand = replace(at_hand, free=_remaining(at_hand.free, service, of_service))
    first = cumulative(changes, FIRST)
    contents, warnings, command = written_plans(plans, first, terms, out)
    advice = Advice(
        source=source,
        headroom=terms.headroom,
        services=tuple(services),
        gaps=tuple(gaps),
        changes=tuple(first),
        further=sum(map(len, changes)) - len(first),
        next_command=command,
    )
    pages = with_seal(advice_files(advice), "advise.json")
    return AdvisedFolder(advice=advice, files={**pages, **contents}, warnings=warnings)


def _remaining(free: Mapping[str, int], service: RunningService, changes: Sequence[AdvisedChange]) -> dict[str, int]:
    """Free GPUs that the changes of a service leave to the others: each is given once."""
    used = Counter[str]()
    for deployment in service.deployments:
        used[deployment.gpu] += deployment.claimed_gpus
    taken = {gpu: max((change.plan.fleet.get(gpu, 0) - used[gpu] for change in changes), default=0) for gpu in free}
    return {gpu: count - max(0, taken[gpu]) for gpu, count in free.items()}


def _require_named(terms: Terms, services: Sequence[RunningService]) -> None:
    names = [service.name for service in services]
    for flag, rows in (("--workload", terms.workloads), ("--slo", terms.levels), ("--rps", terms.rates)):
        for name in rows:
            if name and name not in names:
                raise InputError(
                    f"{flag} {name}...: must name a service that runs, one of {', '.join(names) or 'none'}.",
                    hint="Services are called as their models; leave the name out to mean all.",
                )


def judged(
    service: RunningService, terms: Terms, series: Sequence[ObservedSeries]
) -> tuple[ServiceAdvice, RebuiltService]:
    """A service today, calibrated where its metrics tell. Raises InputError and InfeasibleError as `rebuilt`."""
    plain = rebuilt(service, terms)
    predicted_rps = plain.plan.outlook.promise_rps
    observed, now = observed_service(plain, series, terms.rate_rps(service.name)), plain
    if observed is not None:
        loaded = rebuilt(service, terms, observed.measured)
        predicted_rps = loaded.plan.outlook.promise_rps
        observed = with_paces(observed, loaded, series)
        now = rebuilt(service, terms, observed.measured) if observed.measured.calibration else loaded
    rate = now.measured.rate_rps or None
    state, fewest = Pooled.of(now), fewer_copies(now, terms)
    wasted = None if rate is None else 0.0
    if fewest is not None and rate is not None:
        wasted = max(0.0, state.rent_usd_per_hour - fewest.rent_usd_per_hour)
    advice = ServiceAdvice(
        name=service.name,
        namespace=service.namespace,
        model=service.model,
        engine=str(now.plan.scenario.engine),
        deployments=service.deployments,
        plan=now.plan,
        rate_rps=rate,
        needed_rps=None if rate is None else terms.needed_rps(rate),
        predicted_rps=predicted_rps,
        promise_rps=now.plan.outlook.promise_rps,
        paces=() if observed is None else observed.paces,
        rent_usd_per_hour=now.rent_usd_per_hour,
        wasted_usd_per_hour=wasted,
        breaks=(*_breaks(now, observed), *_missing(now, terms, fewest)),
        notes=tuple(_notes(now, observed, terms)),
    )
    return advice, now


def _breaks(service: RebuiltService, observed: ObservedService | None) -> Iterator[str]:
    """What is broken, or near it, the worst first."""
    promise, rate = service.plan.outlook.promise_rps, service.measured.rate_rps
    if rate > promise:
        yield f"More requests come ({rate:.4g}/s) than its servers can promise ({promise:.4g}/s)."
    elif rate > promise * _NEAR:
        yield f"{rate:.4g} requests/s come, {rate / promise:.0%} of what its servers can promise."
    if observed is not None:
        yield from _late(service, observed)
        yield from _pressed(service, observed)
    yield from _contexts(service)
    for deployment, flag, batch in service.excess:
        yield (
            f"{deployment.label} lets in {flag:,} sequences at once; memory and levels stand {batch:,}: bursts break "
            "the levels before they wait."
        )
    for deployment in service.service.deployments:
        if deployment.claimed_gpus > deployment.used_gpus:
            idle = deployment.claimed_gpus - deployment.used_gpus
            yield f"{deployment.label} claims {deployment.claimed_gpus} GPUs and its flags use {idle} fewer: they idle."


_MANY = 4096  # GPUs: more than any deployment lacks


def _missing(service: RebuiltService, terms: Terms, fitting: Pooled | None) -> Iterator[str]:
    """What promises would take that the GPUs at hand have no room for."""
    rate = service.measured.rate_rps
    if not rate or fitting is not None:
        return
    state = Pooled.of(service)
    everything = dict.fromkeys((pool.gpu for pool in state.pools), _MANY)
    grown = resized(state, terms.needed_rps(rate), everything, terms.least_servers)
    if grown is None:
        yield f"No number of its servers promises {terms.needed_rps(rate):.4g} requests/s."
        return
    more = [
        f"{round((pool.count - before.count) * state.claimed[pool.island])} {pool.gpu}"
        for before, pool in zip(state.pools, grown.pools, strict=True)
        if pool.count > before.count
    ]
    yield (
        f"To promise {terms.needed_rps(rate):.4g} requests/s with more servers as they are takes {', '.join(more)} "
        "more, which are not free (--inventory says what is at hand)."
    )


def _late(service: RebuiltService, observed: ObservedService) -> Iterator[str]:
    """Levels that the metrics' own quantiles break."""
    slo = service.plan.scenario.slo
    late, loads = slo.late_share, observed.loads
    rows = (
        ("TTFT", Quantity.TTFT, Phase.PREFILL, slo.ttft_ms),
        ("TPOT", Quantity.TPOT, Phase.DECODE, slo.tpot_ms),
    )
    for name, quantity, phase, bound_ms in rows:
        histogram = loads.histogram([island.id for island in loads.serving(phase)], quantity)
        if histogram is None or bound_ms is None or late is None:
            continue
        measured = histogram.quantile(1 - late)
        if measured is not None and measured.low * MS_PER_S >= bound_ms:
            yield (
                f"{name} {slo.statistic} is {measured.value * MS_PER_S:.4g} ms as measured, beyond the bound of "
                f"{bound_ms:.4g} ms."
            )


def _pressed(service: RebuiltService, observed: ObservedService) -> Iterator[str]:
    """Full caches, lost caches, queues."""
    for island, deployment in service.islands.items():
        cache, preempted, backlog = (
            observed.loads.value(island, quantity)
            for quantity in (Quantity.CACHE, Quantity.PREEMPTED, Quantity.BACKLOG)
        )
        if cache is not None and cache > _FULL:
            yield f"{deployment.label}: KV caches are {cache:.0%} full on average."
        if preempted:
            yield f"{deployment.label}: {preempted * 60:.3g} requests a minute lose their KV cache and start over."
        if backlog is not None and backlog > _OFTEN:
            yield f"{deployment.label}: requests wait {backlog:.0%} of the time."


def _contexts(service: RebuiltService) -> Iterator[str]:
    """Prompts that an engine refuses, as they are longer than it was started for."""
    workload = service.plan.scenario.workload
    for deployment in service.service.deployments:
        context = deployment.start.context
        if context is None:
            continue
        share = sum(
            probability
            for tokens, probability in zip(workload.input_tokens, workload.probabilities, strict=True)
            if tokens >= context
        )
        if share > 0:
            yield (
                f"{deployment.label} takes at most {context:,} tokens and refuses {share:.2%} of the workload's "
                "prompts."
            )


def _notes(service: RebuiltService, observed: ObservedService | None, terms: Terms) -> Iterator[str]:
    """What the figures rest on."""
    router = {"random": "at random, as a Service does", "round_robin": "in turn", "least_work": "by load"}
    yield f"Requests are taken to be sent {router[terms.policy]} (--router says otherwise)."
    for deployment in service.service.deployments:
        yield f"{deployment.label}: GPUs are {deployment.gpu} by {deployment.gpu_source}."
    yield from (f"{note}." for note in service.notes)
    if observed is None:
        yield "No metrics tell of it: figures are predictions, not calibrated."
        return
    for deployment in observed.untold:
        yield f"No metrics tell of {deployment.label}: the rate of the service is not known."
    yield from observed.notes
    yield from _other_lengths(service, observed)


def _other_lengths(service: RebuiltService, observed: ObservedService) -> Iterator[str]:
    workload = service.plan.scenario.workload
    rows = (
        ("prompts", Quantity.PROMPT_TOKENS, Phase.PREFILL, workload.mean_input_tokens),
        ("answers", Quantity.GENERATED, Phase.DECODE, workload.mean_output_tokens),
    )
    for name, quantity, phase, planned in rows:
        requests, tokens = (observed.loads.total(q, phase) for q in (Quantity.REQUESTS, quantity))
        if requests and tokens and abs(tokens / requests / planned - 1) > _OTHER_LENGTHS:
            yield (
                f"WARNING: {name} have {tokens / requests:,.0f} tokens as measured, {planned:,.0f} in the workload "
                f"{workload.name}: give one of these days (--workload)."
            )
