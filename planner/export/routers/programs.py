"""The programs of a plan: an engine's router for each interval that has to be paired or that it balances (`pairings`),
and HAProxy in front where lengths, pools or both ways of serving have to be told apart. Router `haproxy` stands behind
the pairing programs, too, where the engine's hand-over of KV caches lets it (`by_speed`)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from planner.domain import PHASES, Endpoints, LengthMeasure, Phase, Plan, RouterBehaviour, Rule, one_layer
from planner.domain.serving.programs import PROGRAMS, Surroundings
from planner.domain.serving.targets import Reach
from planner.export.engines.seam import Launch
from planner.export.islands import ServingIsland
from planner.export.routers.gateways import (
    BOOTSTRAP_ANNOTATION,
    HEALTH_FAILURES,
    HEALTH_PERIOD_S,
    Gateway,
    gateway_process,
    interval_labels,
    program_name,
    resends_pairs,
)
from planner.export.routers.haproxy import COPIES, FORWARD_S, Backend, PhaseServers, haproxy_process, phase_servers
from planner.export.routers.intervals_served import ServedInterval, chosen, island_requests, served_intervals
from planner.export.routers.orchestrator import orchestrator_process
from planner.export.routers.pairings import by_prefix, by_speed, plan_gateways
from planner.export.routers.speeds import island_loads, server_counts, weighed_loads
from planner.export.seams import Deployment, Endpoint, Router, RouterFiles, RouterProcess
from planner.export.summary import balanced

_PROCESSES = {"trtllm": orchestrator_process}
"""Of engines whose program has a file instead of flags."""


def render_programs(deployment: Deployment, endpoints: Sequence[Endpoint], *, direct: bool) -> RouterFiles:
    """HAProxy and the engine's routers around it. `direct`: HAProxy stands always in front and reaches islands of both
    phases itself; else an engine's router serves each interval, alone where there is only one.

    Raises:
        InputError: a name that is an island's, too.
    """
    intervals = served_intervals(deployment.plan)
    if not intervals:
        return RouterFiles()  # the routing table's own check says what is missing
    gateways = plan_gateways(deployment.plan, intervals, deployment.engine.name, _counts(deployment), direct=direct)
    if not direct and len(gateways) == 1:
        only = replace(gateways[0], alone=True)
        return RouterFiles(processes=(gateway_process(deployment, endpoints, only),))
    name = program_name(deployment)
    speeds = direct and by_speed(deployment.plan, deployment.engine.name, intervals)
    phases = {i.number: _phases(deployment.plan, i, endpoints) if speeds else () for i in intervals}
    process = _PROCESSES.get(deployment.engine.name, gateway_process)
    programs = [
        (gateway, process(deployment, endpoints, replace(gateway, reached=_reached(name, phases, gateway))))
        for gateway in gateways
    ]
    backends = [_backend(deployment.plan, i, programs, endpoints, phases[i.number], direct=direct) for i in intervals]
    front = haproxy_process(deployment, backends, name)
    return RouterFiles(processes=(front, *(process for _, process in programs)))


def _phases(plan: Plan, interval: ServedInterval, endpoints: Sequence[Endpoint]) -> tuple[PhaseServers, ...]:
    """The servers that an interval's pairs are made of, by phase; none where nothing is paired."""
    if not interval.prefill:
        return ()
    rows = zip(PHASES, (interval.prefill, interval.decode), strict=True)
    return tuple(
        phase_servers(
            interval.number,
            phase,
            [(endpoint, weights.get(endpoint.island.id, 0.0)) for endpoint in chosen(names, endpoints)],
        )
        for phase, names in rows
        for weights in [weighed_loads(plan, island_loads(plan, interval, phase))]
    )


def _reached(host: str, phases: Mapping[int, Sequence[PhaseServers]], gateway: Gateway) -> dict[str, str]:
    """Role -> where HAProxy, at `host`, takes the requests of its phase; none where the program reaches engines."""
    servers = phases[gateway.interval.number]
    return {phase.value: f"http://{host}:{each.port}" for phase, each in zip(PHASES, servers, strict=False)}


def _backend(
    plan: Plan,
    interval: ServedInterval,
    programs: Sequence[tuple[Gateway, RouterProcess]],
    endpoints: Sequence[Endpoint],
    phases: tuple[PhaseServers, ...],
    *,
    direct: bool,
) -> Backend:
    shares = weighed_loads(plan, dict(interval.mixed))
    return Backend(
        interval=interval,
        programs=tuple(
            (process, gateway.share, sum(map(island_requests, chosen(gateway.answering, endpoints))))
            for gateway, process in programs
            if gateway.interval.number == interval.number
        ),
        direct=tuple((e, shares[e.island.id]) for e in chosen(shares, endpoints)) if direct else (),
        phases=phases,
    )


def pod_labels(island: ServingIsland, deployment: Deployment, *, direct: bool) -> dict[str, str]:
    """By what programs find pods whose names nobody knows; none where HAProxy finds them."""
    plan, engine = deployment.plan, deployment.engine.name
    intervals = served_intervals(plan)
    if deployment.target.row.named or (direct and by_speed(plan, engine, intervals)):
        return {}
    return interval_labels(plan_gateways(plan, intervals, engine, _counts(deployment), direct=direct), island.id)


def _counts(deployment: Deployment) -> dict[str, int]:
    """Island -> what takes requests by itself."""
    return {island.id: island.servers for island in deployment.islands}


def pod_annotations(island: ServingIsland, deployment: Deployment, launch: Launch, /) -> dict[str, str]:
    """Where prefill pods hand out KV caches, for a gateway that finds them by label."""
    if deployment.target.row.named or island.phase is not Phase.PREFILL:
        return {}
    port = next(iter(launch.bootstrap_ports), None)
    return {} if port is None else {BOOTSTRAP_ANNOTATION: str(port)}


def rank_obstacle(island: ServingIsland, deployment: Deployment, /, *, direct: bool) -> str:
    """HAProxy reaches every port; an engine's router that looks for pods by label looks at one."""
    if deployment.target.row.named or (direct and _reaches(island, deployment)):
        return ""
    return f"programs find pods of target {deployment.target.name} by label, and look at one port of each"


def _reaches(island: ServingIsland, deployment: Deployment) -> bool:
    """Whether HAProxy itself sends requests to the island's engines."""
    plan = deployment.plan
    return island.mixed or by_speed(plan, deployment.engine.name, served_intervals(plan))


def behaviour(plan: Plan, around: Surroundings, /, *, direct: bool) -> RouterBehaviour:
    """Whom the programs choose, by what they tell lengths apart, and what they do otherwise than the plan."""
    engine, intervals = around.engine, served_intervals(plan)
    paired = any(interval.prefill for interval in intervals)
    drawn = not direct or (paired and not by_speed(plan, engine, intervals))
    counts = server_counts(plan, ranks=around.ranks)
    several = len(plan_gateways(plan, intervals, engine, counts, direct=direct)) > len(intervals)
    notes = []
    if len(intervals) > 1:
        notes.append("Lengths are told apart by the bytes of a request: prompts near a cut point go astray.")
    if drawn:
        notes += ["HAProxy gives each pool its share of the requests, by its weight."] if several else []
        notes.append(
            "An engine's router draws two workers evenly and takes the one with fewer requests, whatever they cost and "
            "however fast it is; each of its two copies counts its own requests alone."
        )
    else:
        notes += _front_notes(plan, around, paired=paired)
    if paired and drawn and not resends_pairs(engine):
        blind = HEALTH_PERIOD_S * HEALTH_FAILURES
        notes.append(
            f"vllm-router sends a paired request once: what meets a dead server in the {blind} s until its checks have "
            "failed is lost, with status 500."
        )
    if paired and any(interval.mixed for interval in intervals):
        notes.append("Between split and mixed islands requests go by the plan's shares.")
    chosen = PROGRAMS["haproxy" if direct else "vllm"](around)
    if drawn and direct:
        drawing = PROGRAMS["vllm"](around)
        chosen = replace(chosen, prefill=drawing.prefill, decode=drawing.decode)
    if drawn and not several:
        mixed = chosen.mixed if direct else chosen.mixed[1:]
        chosen = replace(chosen, prefill=chosen.prefill[1:], decode=chosen.decode[1:], mixed=mixed)
    if direct and not balanced(plan):
        in_turn = one_layer(Endpoints.SERVER, Rule.IN_TURN, by_speed=True)
        chosen = replace(chosen, prefill=in_turn, decode=in_turn, mixed=in_turn)
    measure = LengthMeasure.BYTES if len(intervals) > 1 else LengthMeasure.TOKENS
    return replace(chosen, measure=measure, prefixes=drawn and by_prefix(plan), notes=tuple(notes))


def _front_notes(plan: Plan, around: Surroundings, *, paired: bool) -> Iterator[str]:
    """What HAProxy does where it chooses every server itself."""
    if not balanced(plan):
        yield "Servers are taken in turn by the plan's shares, whatever they have to do."
    else:
        endpoint = "attention rank" if around.ranks else "server"
        counted = "bytes of prompts" if around.counts_bytes and paired else "requests, however long,"
        yield f"The {endpoint} with the fewest {counted} for its weight takes the next."
        if around.counts_bytes and paired:
            yield from _thread_warning(plan)
        yield "Each of HAProxy's two copies counts its own alone."
    if paired:
        yield (
            "A pair's two servers are each chosen by HAProxy, behind the program that pairs; what meets a dead one "
            "goes to another."
        )
    if by_prefix(plan):
        yield "HAProxy knows nothing of cached prefixes."


def _thread_warning(plan: Plan) -> Iterator[str]:
    """Where one thread of each copy, which is all that counting bytes takes, would be busy with tokens."""
    tokens_s = plan.throughput_rps * plan.scenario.workload.mean_output_tokens
    busy = tokens_s * FORWARD_S / COPIES
    if busy > _BUSIEST:
        yield (
            f"WARNING: {tokens_s:,.0f} tokens/s of answers keep the one thread of each of HAProxy's {COPIES} copies "
            f"{busy:.0%} busy: take --router-counts requests (deploy.router_counts), which has several, and plan anew."
        )


_BUSIEST = 0.8


def _router(name: str, engines: tuple[str, ...], *, direct: bool) -> Router:
    def render(deployment: Deployment, endpoints: Sequence[Endpoint], /) -> RouterFiles:
        return render_programs(deployment, endpoints, direct=direct)

    def labels_of(island: ServingIsland, deployment: Deployment, /) -> dict[str, str]:
        return pod_labels(island, deployment, direct=direct)

    return Router(
        name=name,
        needs=(Reach.PROGRAMS,),
        engines=engines,
        render=render,
        behaviour=partial(behaviour, direct=direct),
        pod_labels=labels_of,
        pod_annotations=pod_annotations,
        counts_bytes=direct,
        rank_obstacle=partial(rank_obstacle, direct=direct),
        keeps_lanes=True,
    )


HAPROXY = _router("haproxy", ("vllm", "sglang", "trtllm"), direct=True)
VLLM = _router("vllm", ("vllm",), direct=False)
MODEL_GATEWAY = _router("model-gateway", ("sglang",), direct=False)
