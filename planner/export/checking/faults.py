"""Do manifests add up to their plan? Reads the finished text only, and counts again what the targets and engines
counted when they wrote it."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from planner.domain import Plan
from planner.errors import InconsistentPlanError
from planner.export.checking.crds import CrdSchemas
from planner.export.checking.expectation import Expectation, Owned, expectation_of, owned_workloads
from planner.export.checking.names import name_faults
from planner.export.checking.pods.containers import pod_faults
from planner.export.checking.pods.evictions import eviction_faults
from planner.export.checking.pods.nodes import node_faults
from planner.export.checking.pods.router_programs import program_faults
from planner.export.checking.pods.scheduling import pin_faults, priority_faults, spread_faults
from planner.export.checking.pods.services import service_faults
from planner.export.checking.pods.serving import serving_faults, together_faults
from planner.export.checking.pods.workloads import total_faults, workload_faults
from planner.export.checking.references import reference_faults
from planner.export.checking.routing.routers import router_faults
from planner.export.checking.routing.tables_of_routes import routing_faults
from planner.export.checking.sizes import size_faults
from planner.export.checking.structure import FoundManifests, read_manifests
from planner.export.found import Fault, FoundWorkload, Kind, Manifest
from planner.export.routers.registry import ROUTERS
from planner.export.targets import TARGETS

_MOST_TOLD = 20


def check_manifests(files: Mapping[str, str], plan: Plan, crds: CrdSchemas | None = None) -> None:
    """Hold `files` (name -> text) against `plan` and the given schemas; see `find_faults`.

    Raises:
        InconsistentPlanError: naming file, object and field of every fault.
    """
    faults = find_faults(files, plan, crds)
    if faults:
        raise InconsistentPlanError(faults_text(faults), hint="Nothing was written.")


def faults_text(faults: Sequence[Fault]) -> str:
    """One fault a line, the first twenty."""
    lines = [str(fault) for fault in faults[:_MOST_TOLD]]
    unlisted = len(faults) - len(lines)
    return "\n".join([*lines, f"and {unlisted} more."] if unlisted else lines)


def find_faults(
    files: Mapping[str, str], plan: Plan | None = None, crds: CrdSchemas | None = None
) -> tuple[Fault, ...]:
    """All that is wrong with `files` (name -> text).

    Checked: structure; names (DNS labels, unique a kind); pinned images, quantities; that each serving island has one
    workload with its replicas, pods and GPUs, on its own nodes, no pod larger than a host, the engine's flags counting
    the same GPUs and being those of its batch, context and phase, each once; that pods start their engine, and those
    of a copy find each other; ports from the routing table to the engine; GPUs per type; priority classes, claims and
    pins; the routing table (both phases, shares, Services); what `serving_faults` and `together_faults` hold workloads
    to; topology objects of nodes; and evictions. Without a `plan` the islands are those that the annotations tell of,
    and what only a plan knows (hosts, node labels, priorities, shares of routes, flags that its rates rest on, who is
    evicted) is not looked at.

    All faults of single objects are reported; what objects make together is checked once each by itself is sound.
    """
    manifests, expected = read_manifests(files, crds), expectation_of(plan)
    workloads = [w for m, kind in manifests.sound if kind and kind.workloads for w in kind.workloads(m)]
    if tells_fleet(manifests):
        return (*name_faults(manifests.sound), *_target_faults(manifests.sound, expected))
    owned, ownership = owned_workloads(workloads, expected, all_there=not manifests.faults)
    sizes = size_faults(manifests.sound)
    alone = [
        *manifests.faults,
        *name_faults(manifests.sound),
        *sizes,
        *_single_faults(owned, workloads, expected),
        *ownership,
    ]
    if not alone:
        return tuple(dict.fromkeys(_joint_faults(manifests.sound, owned, workloads, expected)))
    # a target knows why a workload is not there or not the island's, where all objects can be read
    more = () if manifests.faults else _target_faults(manifests.sound, expected)
    return tuple(dict.fromkeys((*alone, *more)))  # what two checks report alike appears once


def tells_fleet(files: Mapping[str, str] | FoundManifests) -> bool:
    """Whether `files` (name -> text, or read already) hold nothing but sound objects that describe the fleet: no
    workload, no route."""
    manifests = files if isinstance(files, FoundManifests) else read_manifests(files)
    return (
        bool(manifests.sound) and not manifests.faults and all(kind and kind.inventory for _, kind in manifests.sound)
    )


def _single_faults(
    owned: Sequence[Owned], workloads: Sequence[FoundWorkload], expected: Expectation
) -> Iterator[Fault]:
    for workload in workloads:
        for pod in workload.pods:
            yield from pod_faults(workload.manifest, pod)
    for item in owned:
        yield from workload_faults(item, expected)
        yield from serving_faults(item, expected)


def _joint_faults(
    sound: Sequence[tuple[Manifest, Kind | None]],
    owned: Sequence[Owned],
    workloads: Sequence[FoundWorkload],
    expected: Expectation,
) -> Iterator[Fault]:
    manifests = [manifest for manifest, _ in sound]
    yield from total_faults(owned, manifests, expected)
    yield from reference_faults(manifests, workloads)
    yield from priority_faults(manifests, workloads, expected)
    if expected.hosts:
        yield from pin_faults(owned, expected)
    yield from spread_faults(owned, expected)
    endpoints, wrong = service_faults(manifests, workloads)
    yield from wrong
    wrong_routes = tuple(routing_faults(manifests, endpoints, expected))
    yield from wrong_routes or router_faults(manifests, owned)
    yield from program_faults(manifests)
    yield from together_faults(manifests, owned, expected)
    yield from eviction_faults(manifests, expected)
    yield from _target_faults(sound, expected)


def _target_faults(sound: Sequence[tuple[Manifest, Kind | None]], expected: Expectation) -> Iterator[Fault]:
    manifests = [manifest for manifest, _ in sound]
    checks = (*(t.checks for t in TARGETS.values()), *(r.checks for r in ROUTERS.values()))
    for check in chain.from_iterable(checks):
        yield from check(manifests, expected.plan)
    yield from node_faults(manifests, expected)
