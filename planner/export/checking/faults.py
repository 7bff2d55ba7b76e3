"""Do manifests add up to their plan? Reads the finished text only, and counts its GPUs and routes again.

What a field must hold is not told here: the export writes it, other people's judges look at it in the tests, and
`differences` compares what was written with what would be.
"""

from collections.abc import Iterator, Mapping, Sequence

from planner.domain import Plan
from planner.errors import InconsistentPlanError
from planner.export.checking.counts import copy_faults, total_faults
from planner.export.checking.crds import CrdSchemas
from planner.export.checking.expectation import Expectation, Owned, expectation_of, owned_workloads
from planner.export.checking.names import name_faults, size_faults
from planner.export.checking.routing.routes import route_faults
from planner.export.checking.routing.services import service_faults
from planner.export.checking.routing.tables_of_routes import routing_faults
from planner.export.checking.structure import FoundManifests, read_manifests
from planner.export.found import Fault, FoundWorkload, Kind, Manifest

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
    """What does not add up in `files` (name -> text).

    Checked: structure; names (DNS labels, unique a kind) and sizes; that each serving island has one workload of its
    phase, copies and GPUs; GPUs per type; whom Services select and at which ports; the routing table (both phases,
    every length, shares). Without a `plan` the islands are those that the annotations
    tell of.

    All faults of single objects are reported; what objects make together is checked once each by itself is sound.
    """
    manifests, expected = read_manifests(files, crds), expectation_of(plan)
    if tells_fleet(manifests):
        return tuple(name_faults(manifests.sound))
    workloads = [w for m, kind in manifests.sound if kind and kind.workloads for w in kind.workloads(m)]
    owned, ownership = owned_workloads(workloads, expected, all_there=not manifests.faults)
    alone = [
        *manifests.faults,
        *name_faults(manifests.sound),
        *size_faults(manifests.sound),
        *(fault for item in owned for fault in copy_faults(item)),
        *ownership,
    ]
    return tuple(dict.fromkeys(alone or _joint_faults(manifests.sound, owned, workloads, expected)))


def tells_fleet(files: Mapping[str, str] | FoundManifests) -> bool:
    """Whether `files` (name -> text, or read already) hold nothing but sound objects that describe the fleet: no
    workload, no route."""
    manifests = files if isinstance(files, FoundManifests) else read_manifests(files)
    return (
        bool(manifests.sound) and not manifests.faults and all(kind and kind.inventory for _, kind in manifests.sound)
    )


def _joint_faults(
    sound: Sequence[tuple[Manifest, Kind | None]],
    owned: Sequence[Owned],
    workloads: Sequence[FoundWorkload],
    expected: Expectation,
) -> Iterator[Fault]:
    manifests = [manifest for manifest, _ in sound]
    yield from total_faults(owned, manifests, expected)
    endpoints, wrong = service_faults(manifests, workloads)
    yield from wrong
    yield from routing_faults(manifests, endpoints, expected)
    yield from route_faults(manifests, owned, expected)
