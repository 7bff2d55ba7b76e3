"""What a service's deployments tell of themselves, by the labels that scraping gives: namespace and pod, else the name
of the model where one deployment alone has it."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from planner import files
from planner.domain import Phase
from planner.domain.advice import RunningDeployment
from planner.domain.serving.observed import MeteredWorkload, ObservedSeries, Quantity
from planner.errors import InputError
from planner.export import slug
from planner.export.objects.operating.queries import foreign_queries
from planner.plans.observed.compare import compare_observed, observed_calibration
from planner.plans.observed.loads import Loads, loads_of
from planner.plans.observed.mixed import mixed_calibration, mixed_paces, pace_source
from planner.plans.observed.paced import pace_factor
from planner.runs.live import lengths
from planner.runs.live.advice.finding import RunningService
from planner.runs.live.advice.rebuilding import Measured, RebuiltService
from planner.runs.live.prometheus import Prometheus


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedService:
    """What a service told. `loads`: by island of its plan; `paces`: GPU type, and measured over predicted speed, of
    each that tells; `untold`: deployments of which nothing came; `notes`: what could not be taken."""

    loads: Loads
    measured: Measured
    paces: tuple[tuple[str, float], ...] = ()
    untold: tuple[RunningDeployment, ...] = ()
    notes: tuple[str, ...] = ()


def queries_of(services: Sequence[RunningService], window: str) -> dict[str, str]:
    """What to ask Prometheus, by name: every quantity of every deployment."""
    return {
        f"{label_of(service, deployment)}.{quantity.name.lower()}": query
        for service in services
        for deployment in service.deployments
        for quantity, query in _queries(service, deployment, by_pods(deployment), window).items()
    }


def _queries(
    service: RunningService, deployment: RunningDeployment, matchers: str, window: str
) -> Mapping[Quantity, str]:
    return foreign_queries(service.engine, service.name, label_of(service, deployment), matchers, window)


def label_of(service: RunningService, deployment: RunningDeployment) -> str:
    """The deployment's name in answers."""
    return slug("-".join(filter(None, (service.name, deployment.namespace, deployment.name))))


def by_pods(deployment: RunningDeployment) -> str:
    """Matchers by the labels that a scrape of pods gives. Texts of PromQL have Go's escapes; JSON's are among them."""
    namespace = [f"namespace={json.dumps(deployment.namespace)}"] if deployment.namespace else []
    return ",".join((*namespace, f"pod=~{json.dumps(deployment.pods)}"))


def ask(prometheus: Prometheus, services: Sequence[RunningService], window: str) -> list[ObservedSeries]:
    """The series of all services; none of a deployment that tells nothing. InputError as `Prometheus.answers`."""
    names = Counter(name for service in services for d in service.deployments for name in {*_model_names(d)})
    series: list[ObservedSeries] = []
    for service in services:
        for deployment in service.deployments:
            single = [name for name in _model_names(deployment) if names[name] == 1]
            for matchers in (by_pods(deployment), *(f"model_name={json.dumps(name)}" for name in single)):
                queries = _queries(service, deployment, matchers, window)
                by_name = {quantity.name.lower(): query for quantity, query in queries.items()}
                first = {Quantity.RANKS.name.lower(): by_name[Quantity.RANKS.name.lower()]}
                if not files.read_answers(prometheus.answers(first), sparse=True):
                    continue
                series += files.read_answers(prometheus.answers(by_name), sparse=True)
                break
    return series


def metered(prometheus: Prometheus, services: Sequence[RunningService], window: str) -> dict[str, MeteredWorkload]:
    """The workloads that metrics tell, by service; none of one whose metrics tell too little. InputError where the
    Prometheus does not answer."""
    workloads: dict[str, MeteredWorkload] = {}
    for service in services:
        namespaces = {deployment.namespace for deployment in service.deployments} - {""}
        pods = "|".join(deployment.pods for deployment in service.deployments)
        matchers = [*(f"namespace={json.dumps(name)}" for name in namespaces), f"pod=~{json.dumps(pods)}"]
        names = [f"model_name={json.dumps(name)}" for name in _model_names(service.deployments[0])]
        for selector in (",".join(matchers), *names):
            queries = lengths.queries_of(service.engine, window, selector)
            series = files.read_traffic(prometheus.answers(queries))
            if not series:
                continue
            with suppress(InputError):  # it tells too little: then a workload has to be given
                workloads[service.name] = lengths.workload_from_answers(
                    series, service.engine, service.name, service.spec.max_context
                )
            break
    return workloads


def _model_names(deployment: RunningDeployment) -> list[str]:
    return list(deployment.start.served_as[:1]) or [deployment.start.model]


def observed_service(
    rebuilt: RebuiltService, series: Sequence[ObservedSeries], given_rps: float
) -> ObservedService | None:
    """What the series tell of the service; None where they tell of no request of it. `rebuilt`: as its metrics are not
    known yet, for its pace; then it is to be rebuilt with `measured`. `given_rps`: where they tell a part alone."""
    service = rebuilt.service
    labels = {label_of(service, deployment): island for island, deployment in rebuilt.islands.items()}
    of_service = [item for item in series if item.plan == service.name and item.island in labels]
    spoken = {labels[item.island] for item in of_service if item.quantity is Quantity.REQUESTS}
    untold = tuple(deployment for island, deployment in rebuilt.islands.items() if island not in spoken)
    of_service = [item for item in of_service if labels[item.island] in spoken]
    if not any(item.value for item in of_service if item.quantity is Quantity.REQUESTS):
        return None
    loads = loads_of(rebuilt.plan, of_service, labels, service.name)
    partly = tuple(_partly_scraped(rebuilt, loads))
    # a part of the rate would make copies look idle that are not
    rate_rps = given_rps if untold or partly else loads.rate_rps
    measured = Measured(rate_rps=rate_rps, cached=_cached(loads))
    return ObservedService(loads=loads, measured=measured, untold=untold, notes=partly)


def _partly_scraped(rebuilt: RebuiltService, loads: Loads) -> Iterator[str]:
    """A sentence for each deployment of which fewer servers are scraped than run."""
    for pool in rebuilt.plan.outlook.pools:
        ranks = loads.value(pool.island, Quantity.RANKS)
        if ranks is not None and ranks < pool.count:
            yield (
                f"{rebuilt.islands[pool.island].label}: {ranks:g} of its {pool.count} servers are scraped, so that "
                "its rate is not known."
            )


def with_paces(observed: ObservedService, rebuilt: RebuiltService, series: Sequence[ObservedSeries]) -> ObservedService:
    """With what its steps say of the model; `rebuilt`: with what was measured of its load."""
    name, loads = rebuilt.service.name, replace(observed.loads, plan=rebuilt.plan)
    paces = list(mixed_paces(loads))
    untold = [f"{rebuilt.islands[pace.island].name}: no pace. {pace.why_not}" for pace in paces if pace.why_not]
    calibration = mixed_calibration(rebuilt.plan, paces, f"{name}-observed")
    observed = replace(
        observed,
        loads=loads,
        measured=replace(observed.measured, calibration=calibration),
        paces=tuple((pace.gpu, pace.pace) for pace in paces if not pace.why_not),
        notes=(*observed.notes, *untold),
    )
    if not any(island.phase in _HALVES for island in rebuilt.plan.islands):
        return observed
    labels = {label_of(rebuilt.service, deployment): island for island, deployment in rebuilt.islands.items()}
    spoken = {label for label, island in labels.items() if rebuilt.islands[island] not in observed.untold}
    of_service = [item for item in series if item.plan == name and item.island in spoken]
    return _with_steps(observed, of_service, labels, name)


_HALVES = (Phase.PREFILL, Phase.DECODE)


def _with_steps(
    observed: ObservedService, series: Sequence[ObservedSeries], labels: Mapping[str, str], name: str
) -> ObservedService:
    """With the steps of servers of one phase. Prefill servers for which nobody waits tell no step: they are taken to be
    as slow as the decode servers of their GPU type, and never faster than predicted."""
    plan, base = observed.loads.plan, observed.measured.calibration
    observation = compare_observed(plan, series, labels, name)
    untold = [f"{i.island}: no step time. {i.why_not}" for i in observation.islands if i.why_not and i.phase in _HALVES]
    notes = [*observed.notes, *untold]
    try:
        fit = observed_calibration(plan, observation, f"{name}-observed").calibration
    except InputError:
        return replace(observed, notes=tuple(notes))  # which say why
    factors = {(factor.name, factor.family): factor for factor in (*(base.factors if base else ()), *fit.factors)}
    paces = {(i.gpu, i.phase): i.pace for i in observation.islands if i.pace is not None}
    for island in observation.islands:
        of_decode = paces.get((island.gpu, Phase.DECODE))
        if island.phase is Phase.PREFILL and (island.gpu, island.phase) not in paces and of_decode is not None:
            slower = pace_factor(plan, island.gpu, Phase.PREFILL, min(1.0, of_decode), pace_source(plan))
            factors[slower.name, slower.family] = slower
            notes.append(f"{island.island}: taken to go at {min(1.0, of_decode):.0%}, as decode servers do.")
    calibration = replace(fit, factors=tuple(factors.values()))
    return replace(
        observed,
        measured=replace(observed.measured, calibration=calibration),
        paces=(*observed.paces, *((gpu, pace) for (gpu, _), pace in paces.items())),
        notes=tuple(notes),
    )


def _cached(loads: Loads) -> float:
    """Share of prompt tokens that prefix caches had, over what was told."""
    pairs = [
        (loads.value(island.id, Quantity.PROMPT_TOKENS), loads.value(island.id, Quantity.COMPUTED))
        for island in loads.serving(Phase.PREFILL)
    ]
    tokens = sum(total or 0.0 for total, computed in pairs if computed is not None)
    computed = sum(computed for _, computed in pairs if computed is not None)
    return min(0.99, max(0.0, 1 - computed / tokens)) if tokens else 0.0
