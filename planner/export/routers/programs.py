"""The programs of a plan: an engine's router for each interval that has to be paired or that it balances, and HAProxy
in front where lengths, or both ways of serving, have to be told apart."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from planner.domain import (
    Counted,
    Endpoints,
    Freed,
    LengthMeasure,
    Phase,
    Plan,
    RouterBehaviour,
    RouterLayer,
    RouterPolicy,
    Rule,
    one_layer,
)
from planner.export.engines.seam import Launch
from planner.export.islands import ServingIsland
from planner.export.routers.gateways import (
    BOOTSTRAP_ANNOTATION,
    HEALTH_FAILURES,
    HEALTH_PERIOD_S,
    MIXED,
    SPLIT,
    Gateway,
    gateway_process,
    interval_labels,
    program_name,
    resends_pairs,
)
from planner.export.routers.haproxy import Backend, haproxy_process
from planner.export.routers.intervals_served import ServedInterval, chosen, island_requests, served_intervals
from planner.export.seams import Deployment, Endpoint, Router, RouterFiles, RouterProcess
from planner.export.summary import balanced

_NAMELESS = ("kubernetes", "disaggregatedset")
"""Targets whose leaders nobody can name beforehand, so that programs look for labels."""


def render_programs(deployment: Deployment, endpoints: Sequence[Endpoint], *, direct: bool) -> RouterFiles:
    """HAProxy and the engine's routers behind it. `direct`: HAProxy stands always in front and reaches islands of both
    phases itself; else an engine's router serves each interval, alone where there is only one.

    Raises:
        InputError: a name that is an island's, too.
    """
    intervals = served_intervals(deployment.plan)
    if not intervals:
        return RouterFiles()  # the routing table's own check says what is missing
    gateways = _gateways(deployment.plan, intervals, direct=direct)
    if not direct and len(gateways) == 1:
        only = replace(gateways[0], alone=True)
        return RouterFiles(processes=(gateway_process(deployment, endpoints, only),))
    programs = [(gateway, gateway_process(deployment, endpoints, gateway)) for gateway in gateways]
    backends = [_backend(interval, programs, endpoints, direct=direct) for interval in intervals]
    front = haproxy_process(deployment, backends, program_name(deployment))
    return RouterFiles(processes=(front, *(process for _, process in programs)))


def _gateways(plan: Plan, intervals: Sequence[ServedInterval], *, direct: bool) -> list[Gateway]:
    """The engine's routers. HAProxy in front weighs pools, which they cannot: behind it each pairs one prefill pool."""
    rows: list[tuple[ServedInterval, str, int | None]] = []
    for interval in intervals:
        if direct and _weighs_pools(plan) and len(interval.prefill) > 1:
            rows += [(part, SPLIT, pool) for pool, part in enumerate(interval.by_pool())]
        elif interval.prefill:
            rows.append((interval, SPLIT, None))
        if interval.mixed and not direct:
            rows.append((interval, MIXED, None))
    return [
        Gateway(interval=interval, way=way, number=number, pool=pool)
        for number, (interval, way, pool) in enumerate(rows)
    ]


def _weighs_pools(plan: Plan) -> bool:
    """Whether each prefill pool has a program of its own: not where a program looks for prefixes in all of them, nor
    where a table's ranges would make hundreds."""
    return balanced(plan) and plan.scenario.routing.policy is not RouterPolicy.PREFIX_AWARE


def _backend(
    interval: ServedInterval,
    programs: Sequence[tuple[Gateway, RouterProcess]],
    endpoints: Sequence[Endpoint],
    *,
    direct: bool,
) -> Backend:
    shares = dict(interval.mixed)
    behind = {SPLIT: chosen(interval.decode, endpoints), MIXED: chosen(shares, endpoints)}
    return Backend(
        interval=interval,
        programs=tuple(
            (
                process,
                gateway.interval.split if gateway.way == SPLIT else sum(shares.values()),
                sum(island_requests(endpoint) for endpoint in behind[gateway.way]),
            )
            for gateway, process in programs
            if gateway.interval.number == interval.number
        ),
        direct=tuple((e, shares[e.island.id]) for e in behind[MIXED]) if direct else (),
    )


def pod_labels(island: ServingIsland, deployment: Deployment, /) -> dict[str, str]:
    """By what programs find pods whose names nobody knows."""
    if deployment.target not in _NAMELESS:
        return {}
    return interval_labels(served_intervals(deployment.plan), island.id)


def pod_annotations(island: ServingIsland, deployment: Deployment, launch: Launch, /) -> dict[str, str]:
    """Where prefill pods hand out KV caches, for a gateway that finds them by label."""
    if deployment.target not in _NAMELESS or island.phase is not Phase.PREFILL:
        return {}
    port = next(iter(launch.bootstrap_ports), None)
    return {} if port is None else {BOOTSTRAP_ANNOTATION: str(port)}


_COPIES = 2  # of each program
_POOLS = RouterLayer(
    among=Endpoints.POOL, rule=Rule.LEAST, counts=Counted.REQUESTS, freed=Freed.ANSWERED, copies=_COPIES
)
_GATEWAY = one_layer(Endpoints.SERVER, Rule.BETTER_OF_TWO, Counted.REQUESTS, freed=Freed.ANSWERED, copies=_COPIES)
_CONNECTIONS = one_layer(
    Endpoints.SERVER, Rule.LEAST, Counted.REQUESTS, freed=Freed.ANSWERED, by_speed=True, copies=_COPIES
)


def behaviour(plan: Plan, *, direct: bool, engine: str = "") -> RouterBehaviour:
    """Whom the programs choose, by what they tell lengths apart, and what they do otherwise than the plan. `engine`:
    whose router it is; empty: the plan's."""
    intervals = served_intervals(plan)
    paired = any(interval.prefill for interval in intervals)
    prefixes = plan.scenario.routing.policy is RouterPolicy.PREFIX_AWARE
    notes = []
    if len(intervals) > 1:
        notes.append("Lengths are told apart by the bytes of a request: prompts near a cut point go astray.")
    if paired or not direct:
        weighed = direct and _weighs_pools(plan) and any(len(interval.prefill) > 1 for interval in intervals)
        notes += ["HAProxy gives each prefill pool its share of the requests, by its weight."] if weighed else []
        notes.append(
            "An engine's router draws two workers evenly and takes the one with fewer requests, whatever they cost and "
            "however fast it is; each of its two copies counts its own requests alone."
        )
    elif not balanced(plan):
        notes.append("Servers are taken in turn by the plan's shares, whatever they have to do.")
    else:
        notes.append("Requests count alike, however long: the server with the fewest for its weight takes the next.")
        if prefixes:
            notes.append("HAProxy knows nothing of cached prefixes.")
    if paired and not resends_pairs(engine or plan.scenario.engine.name):
        blind = HEALTH_PERIOD_S * HEALTH_FAILURES
        notes.append(
            f"vllm-router sends a paired request once: what meets a dead server in the {blind} s until its checks have "
            "failed is lost, with status 500."
        )
    if paired and any(interval.mixed for interval in intervals):
        notes.append("Between split and mixed islands requests go by the plan's shares.")
    prefill = (_POOLS, *_GATEWAY) if direct and _weighs_pools(plan) else _GATEWAY
    turns = one_layer(Endpoints.SERVER, Rule.IN_TURN, by_speed=True)
    return RouterBehaviour(
        name="haproxy" if direct else "vllm" if engine == "vllm" else "model-gateway",
        prefill=prefill,
        decode=_GATEWAY,
        mixed=_GATEWAY if not direct else _CONNECTIONS if balanced(plan) else turns,
        measure=LengthMeasure.BYTES if len(intervals) > 1 else LengthMeasure.TOKENS,
        prefixes=prefixes and (paired or not direct),
        notes=tuple(notes),
    )


_TARGETS = ("lws", "kubernetes", "disaggregatedset", "script")


def _router(name: str, engines: tuple[str, ...], *, direct: bool) -> Router:
    def render(deployment: Deployment, endpoints: Sequence[Endpoint], /) -> RouterFiles:
        return render_programs(deployment, endpoints, direct=direct)

    return Router(
        name=name,
        targets=_TARGETS,
        engines=engines,
        render=render,
        behaviour=partial(behaviour, direct=direct, engine="" if direct else engines[0]),
        pod_labels=pod_labels,
        pod_annotations=pod_annotations,
    )


HAPROXY = _router("haproxy", ("vllm", "sglang"), direct=True)
VLLM = _router("vllm", ("vllm",), direct=False)
MODEL_GATEWAY = _router("model-gateway", ("sglang",), direct=False)
