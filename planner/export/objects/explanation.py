"""The comments on top of a manifest: which island, what for, how its GPUs multiply out, and what to expect of its
pods."""

from planner.domain import halves_of
from planner.export.engines.kv_caches import image_notes
from planner.export.islands import ServingIsland
from planner.export.objects.operating.domains import domain_notes
from planner.export.objects.operating.draining import drain_note
from planner.export.objects.operating.network import network_notes
from planner.export.objects.operating.probes import probe_note
from planner.export.objects.scheduling import scheduling_notes
from planner.export.objects.security.confinement import confinement_notes
from planner.export.objects.security.exemptions import Exemption
from planner.export.objects.weights import weights_note
from planner.export.routers.ranks import rank_notes
from planner.export.seams import Deployment


def island_comments(island: ServingIsland, deployment: Deployment, notes: tuple[str, ...]) -> tuple[str, ...]:
    """Comment lines of one island's file."""
    return (
        f"Island {island.id} of plan {deployment.plan.scenario.name}: {island.phase} on {island.gpu.name}.",
        _arithmetic(island),
        _parallelism(island, deployment),
        _duty(island),
        *rank_notes(island),
        *_pod_notes(island),
        *domain_notes(island, deployment),
        *scheduling_notes(island, deployment),
        *image_notes(island, deployment),
        *notes,
    )


def _arithmetic(island: ServingIsland) -> str:
    grouping = island.grouping
    groups, pods = _counted(grouping.groups, "group"), _counted(grouping.pods, "pod")
    gpus = _counted(grouping.gpus_per_pod, "GPU")
    return f"{groups} x {pods} x {gpus} = {island.size} {island.gpu.name}."


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _parallelism(island: ServingIsland, deployment: Deployment) -> str:
    parallel = island.parallel
    stages = f" x {parallel.pp} stages" if parallel.pp > 1 else ""
    experts = f"experts over {_counted(parallel.stage_devices, 'GPU')}, " if island.model.experts else ""
    return (
        f"{deployment.engine.name}, a group: tensor parallel {parallel.tp} x data parallel {parallel.dp}{stages}, "
        f"{experts}batch {island.batch_size}, {island.max_model_len} tokens of context at most."
    )


def _duty(island: ServingIsland) -> str:
    if not island.routes:
        return "No range is routed here."
    routes = [route for route in island.routes if route.phase is halves_of(island.phase)[0]]  # both are alike
    first = min(route.range_start for route in routes)
    last = max(route.range_end for route in routes) - 1
    low, high = (pick(route.share for route in routes) for pick in (min, max))
    share = f"{low:.3g}" if low == high else f"{low:.3g} to {high:.3g}"
    return (
        f"Takes {share} of {_counted(len(routes), 'length range')}, {first} to {last} tokens: "
        f"{island.rate_rps:.4g} requests/s, "
        f"busy {island.utilisation:.0%} of the time."
    )


def _pod_notes(island: ServingIsland) -> tuple[str, ...]:
    grouping, hosts = island.grouping, island.gpu.gpus_per_host
    if grouping.gpus_per_pod == min(hosts, island.parallel.devices):
        return ()
    placed = ", and the placement's shares of its nodes," if island.placed else ""
    return (
        f"Pods of {_counted(grouping.gpus_per_pod, 'GPU')} although a host has {hosts}: "
        f"{_group(island)}{placed} allow no larger equal pods.",
    )


def _group(island: ServingIsland) -> str:
    parallel = island.parallel
    stages = f", {parallel.pp} stages" if parallel.pp > 1 else ""
    return f"{parallel.devices} GPUs a group{stages} and tensor parallel {parallel.tp}"


def operating_notes(
    island: ServingIsland, deployment: Deployment, exemptions: tuple[Exemption, ...] = ()
) -> tuple[str, ...]:
    """How the pods of `island` start and end, who fetches their weights, what their namespace has to allow;
    `exemptions`: that others put in."""
    return (
        probe_note(island, deployment),
        *_worker_notes(island),
        drain_note(island, deployment),
        weights_note(island.weights, deployment.options),
        *confinement_notes(island, deployment, exemptions),
        *network_notes(island, deployment),
    )


def _worker_notes(island: ServingIsland) -> tuple[str, ...]:
    if island.grouping.pods == 1 or island.by_rank:
        return ()
    return ("Workers of a group answer no HTTP and have no probes; they stay until the leader's requests are done.",)
