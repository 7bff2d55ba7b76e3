"""What manifests are held against: the plan where there is one, else what their own annotations say."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from planner.domain import ClusterNode, DeployedIsland, DeployedPlan, GpuSpec, PlacementSettings, Plan
from planner.errors import PlannerError
from planner.export.found import Fault, FoundWorkload
from planner.export.islands import ServingIsland, serving_islands
from planner.export.objects.names import slug
from planner.export.objects.pods import ISLAND_LABEL, PHASE_LABEL
from planner.export.objects.scheduling import host_name
from planner.export.summary import PREFIX, deployed_plan, island_rows, read_island


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """`plan` is None where only annotations are to be had; then nothing else is known either.

    `gpus` by type. `answer_tokens`: longest answer; `most_tokens`: the model's context. `settings` of the placement.
    `hosts`: island -> host names of the nodes that the placement gives it, empty where the plan lies on no nodes.
    `nodes` of the plan's cluster, by name. `planned`: the whole plan. `serving`: its islands by id, as the export sees
    them.
    """

    plan: DeployedPlan | None = None
    gpus: Mapping[str, GpuSpec] = field(default_factory=dict)
    answer_tokens: int = 0
    most_tokens: int = 0
    settings: PlacementSettings | None = None
    hosts: Mapping[str, frozenset[str]] = field(default_factory=dict)
    nodes: Mapping[str, ClusterNode] = field(default_factory=dict)
    planned: Plan | None = None
    serving: Mapping[str, ServingIsland] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Owned:
    """A workload and the island that it has to run."""

    workload: FoundWorkload
    island: DeployedIsland


def expectation_of(plan: Plan | None) -> Expectation:
    """What the manifests of `plan` have to say."""
    if plan is None:
        return Expectation()
    scenario = plan.scenario
    nodes = {node.name: node for node in scenario.cluster.nodes} if scenario.cluster else {}
    return Expectation(
        plan=deployed_plan(plan),
        gpus={item.gpu.name: item.gpu for item in scenario.inventory.items},
        answer_tokens=scenario.workload.max_output_tokens,
        most_tokens=scenario.model.max_context,
        settings=scenario.placement,
        hosts=_hosts(plan, nodes),
        nodes=nodes,
        planned=plan,
        serving=_serving(plan),
    )


def _serving(plan: Plan) -> dict[str, ServingIsland]:
    """A plan that cannot be exported has none; other checks report what its manifests make of it."""
    try:
        return {island.id: island for island in serving_islands(plan, "plan")}
    except PlannerError:
        return {}


def _hosts(plan: Plan, nodes: Mapping[str, ClusterNode]) -> dict[str, frozenset[str]]:
    hosts_of: dict[str, set[str]] = {}
    for part in plan.placement.parts if plan.placement else ():
        hosts_of.setdefault(part.island, set()).add(host_name(part.node, nodes))
    return {island: frozenset(hosts) for island, hosts in hosts_of.items()}


def owned_workloads(
    workloads: Sequence[FoundWorkload], expected: Expectation, *, all_there: bool = True
) -> tuple[tuple[Owned, ...], tuple[Fault, ...]]:
    """Each workload with its island, exactly one for every serving island; and what is wrong with that.

    `all_there`: no object had to be left out, so that an island without a workload is a fault.
    """
    if expected.plan is None:
        return _told_by_annotations(workloads)
    missing = {slug(island.id): island for island in expected.plan.islands}
    owned: list[Owned] = []
    faults: list[Fault] = []
    for workload in workloads:
        island = missing.pop(workload.labels.get(ISLAND_LABEL, ""), None)
        if island is None:
            faults.append(_stray(workload))
        else:
            owned.append(Owned(workload=workload, island=island))
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
        workload.manifest.fault(f"{workload.annotations_path}.{key}", f"must be {value!r} as in the plan", repr(came))
        for key, value in island_rows(island).items()
        if (came := workload.annotations.get(key)) != value
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
        owned.append(Owned(workload=workload, island=island))
    return tuple(owned), tuple(faults)
