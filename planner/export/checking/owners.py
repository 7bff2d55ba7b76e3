"""Whose workloads manifests hold: the islands of the plan where there is one, else those that annotations tell of."""

from collections.abc import Sequence

from planner.domain import DeployedIsland, DeployedPlan
from planner.export.found import Fault, FoundWorkload
from planner.export.objects.names import slug
from planner.export.objects.pods import ISLAND_LABEL, PHASE_LABEL
from planner.export.summary import PREFIX, island_rows, read_island

Owned = tuple[FoundWorkload, DeployedIsland]
"""A workload and the island that it has to run."""


def owned_workloads(
    workloads: Sequence[FoundWorkload], plan: DeployedPlan | None, *, all_there: bool = True
) -> tuple[tuple[Owned, ...], tuple[Fault, ...]]:
    """Each workload with its island, exactly one for every serving island; and what is wrong with that.

    `all_there`: no object had to be left out, so that an island without a workload is a fault.
    """
    if plan is None:
        return _told_by_annotations(workloads)
    missing = {slug(island.id): island for island in plan.islands}
    owned: list[Owned] = []
    faults: list[Fault] = []
    for workload in workloads:
        island = missing.pop(workload.labels.get(ISLAND_LABEL, ""), None)
        if island is None:
            faults.append(_stray(workload))
        else:
            owned.append((workload, island))
            faults += _wrong_annotations(workload, island)
    if missing and all_there:
        ids = ", ".join(island.id for island in missing.values())
        faults.append(
            Fault(where="Manifests", expected="every serving island needs a workload", got=f"no workload of {ids}")
        )
    return tuple(owned), tuple(faults)


def _stray(workload: FoundWorkload) -> Fault:
    where = f"{workload.labels_path}.{ISLAND_LABEL}"
    return workload.manifest.fault(
        where, "must name a serving island, each once", repr(workload.labels.get(ISLAND_LABEL, ""))
    )


def _wrong_annotations(workload: FoundWorkload, island: DeployedIsland) -> list[Fault]:
    """What is read back from the manifests has to be the plan."""
    return [
        workload.manifest.fault(
            f"{workload.annotations_path}.{key}", f"must be {value!r} as in the plan", repr(received)
        )
        for key, value in island_rows(island).items()
        if (received := workload.annotations.get(key)) != value
    ]


def _told_by_annotations(workloads: Sequence[FoundWorkload]) -> tuple[tuple[Owned, ...], tuple[Fault, ...]]:
    owned: list[Owned] = []
    faults: list[Fault] = []
    ids: set[str] = set()
    for workload in workloads:
        try:
            island = read_island(workload.annotations, workload.labels.get(PHASE_LABEL, ""))
        except (KeyError, ValueError) as error:
            where = f"{workload.annotations_path}.{PREFIX}"
            faults.append(workload.manifest.fault(where, "must tell the island of a plan", error))
            continue
        if slug(island.id) != workload.labels.get(ISLAND_LABEL) or island.id in ids:
            faults.append(_stray(workload))
            continue
        ids.add(island.id)
        owned.append((workload, island))
    return tuple(owned), tuple(faults)
