"""What must hold: in a cluster before anything is placed on it, in a plan after reading and before writing, of its form
where pools are asked for."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field

from planner.domain.cluster import MOST_GPUS_OF_A_NODE, Cluster, ClusterNode, Pod
from planner.domain.placement import PlacedPart, Placement
from planner.domain.plan import Plan
from planner.domain.scenario import Scenario
from planner.domain.serving.routing import RoutingForm
from planner.errors import InputError

ROUNDING = 1e-6


def require_sound(cluster: Cluster, origin: str) -> None:
    """Raises InputError that names the first object and field that contradict another; `origin` is where it came from.

    Names are unique; NUMA nodes, GPUs, cores and disruption budgets exist; no GPU and no core is held by two pods; no
    node gives away more than it has, no budget allows less than nothing.
    """
    for name, count in Counter(node.name for node in cluster.nodes).items():
        if count > 1:
            raise _fault(origin, f"node {name}", "must be listed once", f"{count} times", "Remove the others.")
    alike: set[object] = set()
    for node in cluster.nodes:
        # nodes of one shape share their tuples, which the cluster keeps alive: looked at once
        gpus = tuple((gpu.index, gpu.numa) for gpu in node.gpus)
        hardware = (node.gpu, gpus, id(node.numa_nodes), id(node.nics))
        if hardware not in alike:
            _require_hardware(node, origin)
            alike.add(hardware)
        _require_once([gpu.uuid for gpu in node.gpus], f"node {node.name}: GPU uuids", origin)
    _require_pods(cluster, origin)
    _require_budgets(cluster, origin)


def require_pools(plan: Plan, purpose: str) -> None:
    """Raises InputError where a plan has a table of shares; `purpose`: `to be watched`."""
    scenario = plan.scenario
    _require_form(plan.form, scenario, f"plan {scenario.name}", purpose, ", and plan again (planner plan)")


def require_buckets(scenario: Scenario, purpose: str, *, origin: str = "", instead: str = "") -> None:
    """The same before there is a plan. `origin`: the scenario's file, where it is read; `instead`: what else helps."""
    others = f", or {instead}" if instead else ""
    _require_form(scenario.routing_form, scenario, origin or f"scenario {scenario.name}", purpose, others)


def _require_form(form: RoutingForm, scenario: Scenario, origin: str, purpose: str, others: str) -> None:
    if form is RoutingForm.BUCKETS:
        return
    beyond = scenario.beyond_buckets
    raise InputError(
        f"{origin}: routing.form must be buckets {purpose}, got {form.value}{f', with {beyond}' if beyond else ''}.",
        hint=f"Set routing.form to buckets{f' and leave out {beyond}' if beyond else ''}{others}.",
    )


def require_sound_node(node: ClusterNode, origin: str, pods: Iterable[Pod] = ()) -> None:
    """What `require_sound` asks of one node and the pods on it. InputError, as there."""
    _require_hardware(node, origin)
    on_node, cores = _PodsOfNode(node=node), frozenset(core for numa in node.numa_nodes for core in numa.cores)
    for pod in pods:
        _require_devices(pod, on_node, cores, origin)
    _require_within(node, on_node.pods, origin)


def _fault(origin: str, place: str, rule: str, shown: str, hint: str) -> InputError:
    return InputError(f"{origin}: {place} {rule}, got {shown}.", hint=hint)


def _require_hardware(node: ClusterNode, origin: str) -> None:
    where = f"node {node.name}:"
    if len(node.gpus) > MOST_GPUS_OF_A_NODE:
        raise _fault(
            origin,
            f"{where} gpus",
            f"must be at most {MOST_GPUS_OF_A_NODE}",
            f"{len(node.gpus)}",
            "Describe each operating system as a node of its own.",
        )
    if node.gpus and not node.gpu:
        raise _fault(origin, f"{where} gpu", "must name the type of its GPUs", "nothing", "Add the type.")
    _require_once([numa.id for numa in node.numa_nodes], f"{where} numa_nodes", origin)
    _require_once([core for numa in node.numa_nodes for core in numa.cores], f"{where} cores", origin)
    _require_once([gpu.index for gpu in node.gpus], f"{where} gpus", origin)
    numa_ids = {numa.id for numa in node.numa_nodes}
    for device, numa in [(f"GPU {gpu.index}", gpu.numa) for gpu in node.gpus] + [
        (f"NIC {nic.name}", nic.numa) for nic in node.nics
    ]:
        if numa not in numa_ids:
            raise _fault(
                origin,
                f"{where} {device}: numa",
                f"must be one of its NUMA nodes ({', '.join(map(str, sorted(numa_ids))) or 'it has none'})",
                str(numa),
                "Correct the id, or add the NUMA node.",
            )


def _require_once(values: Sequence[object], place: str, origin: str) -> None:
    if len(set(values)) < len(values):
        twice = [value for value, count in Counter(values).items() if count > 1]
        raise _fault(origin, place, "must each be listed once", f"{twice[0]} more than once", "Remove the others.")


def _require_pods(cluster: Cluster, origin: str) -> None:
    nodes = {node.name: _PodsOfNode(node=node) for node in cluster.nodes}
    _require_once([pod.key for pod in cluster.pods], "pods", origin)
    cores_of: dict[int, frozenset[int]] = {}  # by their NUMA nodes, which nodes of one shape share
    for pod in cluster.pods:
        on_node = nodes.get(pod.node)
        if on_node is None:
            raise _fault(
                origin, f"pod {pod.key}: node", "must be a node of the cluster", repr(pod.node), "Add the node."
            )
        node = on_node.node
        if pod.cores and (shape := id(node.numa_nodes)) not in cores_of:
            cores_of[shape] = frozenset(core for numa in node.numa_nodes for core in numa.cores)
        _require_devices(pod, on_node, cores_of.get(id(node.numa_nodes), frozenset()), origin)
    for on_node in nodes.values():
        if on_node.pods:
            _require_within(on_node.node, on_node.pods, origin)


@dataclass(slots=True, kw_only=True)
class _PodsOfNode:
    """The pods of a node that were looked at already, and what they hold."""

    node: ClusterNode
    pods: list[Pod] = field(default_factory=list)
    gpus: set[int] = field(default_factory=set)
    cores: set[int] = field(default_factory=set)


def _require_budgets(cluster: Cluster, origin: str) -> None:
    _require_once([budget.name for budget in cluster.disruption_budgets], "disruption_budgets", origin)
    for budget in cluster.disruption_budgets:
        if budget.allowed < 0:
            raise _fault(
                origin,
                f"disruption budget {budget.name}: allowed",
                "must be at least 0",
                f"{budget.allowed}",
                "Write 0 where nobody may go.",
            )
    names = {budget.name for budget in cluster.disruption_budgets}
    for pod in cluster.pods:
        if pod.disruption_budget and pod.disruption_budget not in names:
            raise _fault(
                origin,
                f"pod {pod.key}: disruption_budget",
                "must be one of the cluster's disruption_budgets",
                repr(pod.disruption_budget),
                "Correct the name, or add the budget.",
            )


def _require_devices(pod: Pod, on_node: _PodsOfNode, cores: Set[int], origin: str) -> None:
    """GPUs and cores that a pod holds exist, and nobody else has them; the pod is added to those of its node."""
    if pod.gpus:
        _require_held(pod, on_node, "gpus", {gpu.index for gpu in on_node.node.gpus}, on_node.gpus, origin)
    if pod.cores:
        _require_held(pod, on_node, "cores", cores, on_node.cores, origin)
    on_node.pods.append(pod)


def _require_held(
    pod: Pod, on_node: _PodsOfNode, key: str, existing: Set[int], occupied: set[int], origin: str
) -> None:
    """`occupied`: what earlier pods of the node hold; the pod's own is added."""
    ids: tuple[int, ...] = getattr(pod, key)
    distinct = set(ids)
    if len(distinct) < len(ids) or not distinct <= existing or not occupied.isdisjoint(distinct):
        raise _held_fault(pod, on_node, key, existing, origin)
    occupied |= distinct


def _held_fault(pod: Pod, on_node: _PodsOfNode, key: str, existing: Set[int], origin: str) -> InputError:
    """What is wrong with the ids that a pod holds."""
    ids: tuple[int, ...] = getattr(pod, key)
    place, node = f"pod {pod.key}: {key}", on_node.node.name
    for item in ids:
        if item not in existing:
            return _fault(origin, place, f"must exist on node {node}", str(item), "Correct the index.")
        other = next((other for other in on_node.pods if item in getattr(other, key)), None)
        if other is not None:
            shown = f"{item} of node {node}, which pod {other.key} holds, too"
            return _fault(origin, place, "must be held by one pod alone", shown, "Correct one of the two pods.")
    return _fault(origin, place, "must each be listed once", str(list(ids)), "Remove the others.")


def _require_within(node: ClusterNode, pods: list[Pod], origin: str) -> None:
    """GPUs and CPUs of a node cover what its pods ask for."""
    gpus = sum(pod.gpu_count for pod in pods)
    if gpus > len(node.gpus):
        raise _fault(
            origin,
            f"node {node.name}: GPUs used",
            f"must be at most the {len(node.gpus)} that it has",
            f"{gpus}, by {', '.join(pod.key for pod in pods if pod.gpu_count)[:200]}",
            "Correct the pods' GPUs, or the node's.",
        )
    for resource, used, had in (
        ("cpus", sum(pod.cpu_count for pod in pods), node.cpus),
        ("memory_gb", sum(pod.memory_gb for pod in pods), node.memory_gb),
    ):
        if used > had * (1 + ROUNDING) + ROUNDING:
            raise _fault(
                origin,
                f"node {node.name}: {resource} requested or pinned",
                f"must be at most the {had:g} that it has",
                f"{used:g}",
                "Correct the pods' requests, or the node's.",
            )


def contradictions(plan: Plan) -> Iterator[str]:
    """What no schema can say: names that lead nowhere, degrees that do not fill an island, GPUs given twice, islands in
    part. One sentence each, the key of plan.json first; hardware is looked at where the scenario has its cluster."""
    yield from _wrong_islands(plan)
    yield from _wrong_ends(plan)
    if plan.placement is not None:
        yield from _wrong_rows(plan, plan.placement)
        yield from _wrong_parts(plan.placement.parts)
        if plan.scenario.cluster is not None:
            yield from _wrong_hardware(plan, plan.placement, plan.scenario.cluster)
        yield from _wrong_waits(plan.placement)
    yield from _wrong_trials(plan)


def _wrong_islands(plan: Plan) -> Iterator[str]:
    types = {item.gpu.name for item in plan.scenario.inventory.items}
    serving = [island for island in plan.islands if island.phase]
    idle = [island for island in plan.islands if not island.phase]
    ids: set[str] = set()
    for key, islands in (("islands", serving), ("idle_islands", idle)):
        for index, island in enumerate(islands):
            if island.id in ids:
                yield f"{key}.{index}.id: must be unique, got {island.id!r} again"
            if island.gpu not in types:
                yield f"{key}.{index}.gpu: must be a type of scenario.inventory, got {island.gpu!r}"
            ids.add(island.id)
    for index, island in enumerate(serving):
        if (degrees := island.parallel) and degrees.size != island.size:
            shown = [degrees.tp, degrees.dp, degrees.pp, degrees.replicas]
            yield f"islands.{index}: tp, dp, pp and replicas must multiply to size, {island.size}, got {shown}"


def _wrong_ends(plan: Plan) -> Iterator[str]:
    """Routes and flows of islands that do not serve."""
    serving = {island.id for island in plan.islands if island.phase}
    ends = [(f"routing.{index}.island", route.island) for index, route in enumerate(plan.routing)]
    for index, flow in enumerate(plan.flows):
        ends += [(f"flows.{index}.prefill", flow.prefill), (f"flows.{index}.decode", flow.decode)]
    for key, name in ends:
        if name not in serving:
            yield f"{key}: must be an island that serves, got {name!r}"


def _wrong_trials(plan: Plan) -> Iterator[str]:
    indices = {trial.index for trial in plan.search.trials}
    if plan.search.best_trial not in indices:
        yield f"search.best_trial: must be the index of a trial, got {plan.search.best_trial}"
    for place, index in enumerate(plan.search.frontier):
        if index not in indices:
            yield f"search.frontier.{place}: must be the index of a trial, got {index}"


def _wrong_rows(plan: Plan, placement: Placement) -> Iterator[str]:
    """Rows of islands that do not exist, islands in part, an order of victims that is none."""
    sizes = {island.id: island.size for island in plan.islands}
    for key, islands in (
        ("placement", [part.island for part in placement.parts]),
        ("placement_report.sites", [site.island for site in placement.sites]),
        ("placement_report.shortfalls", [short.island for short in placement.shortfalls]),
        ("placement_report.victims", [victim.island for victim in placement.victims]),
    ):
        for index, name in enumerate(islands):
            if name not in sizes:
                yield f"{key}.{index}.island: must be an island of the plan, got {name!r}"
                return
    placed: Counter[str] = Counter()
    for part in placement.parts:
        placed[part.island] += len(part.gpu_indices)
    for island, gpus in placed.items():
        if gpus != sizes[island]:
            yield f"placement: must hold all {sizes[island]} GPUs of {island}, got {gpus}"
    orders = [victim.order for victim in placement.victims]
    if any(orders) and sorted(orders) != list(range(1, len(orders) + 1)):
        yield f"placement_report.victims: order must count from 1 to {len(orders)}, each once, got {orders[:20]}"
    short = [row.island for row in placement.shortfalls if row.island in placed]
    if short:
        yield f"placement_report.shortfalls: must not name an island that is placed, got {short[0]!r}"


def _wrong_parts(parts: Iterable[PlacedPart]) -> Iterator[str]:
    owners: dict[tuple[str, int], str] = {}
    for index, part in enumerate(parts):
        where = f"placement.{index}.gpu_indices"
        if len(part.gpu_indices) % part.tp:
            yield f"{where}: must be groups of {part.tp}, got {len(part.gpu_indices)} GPUs"
        for gpu in part.gpu_indices:
            if (part.node, gpu) in owners:
                other = owners[part.node, gpu]
                yield f"{where}: GPU {gpu} of {part.node} must be given once, {other} has it, too"
            owners[part.node, gpu] = part.island


def _wrong_waits(placement: Placement) -> Iterator[str]:
    """Islands that wait for others than victims on their nodes, or not for their own."""
    nodes = {(part.island, part.node) for part in placement.parts}
    victims = {victim.order: victim for victim in placement.victims}
    for index, site in enumerate(placement.sites):
        if site.waits_for is None:
            continue
        where = f"placement_report.sites.{index}.waits_for"
        if list(site.waits_for) != sorted(set(site.waits_for)):
            yield f"{where}: must ascend, each order once, got {list(site.waits_for[:20])}"
        for order in site.waits_for:
            if order not in victims or (site.island, victims[order].node) not in nodes:
                yield f"{where}: must be orders of victims on nodes of {site.island}, got {order}"
                break
        missing = [k for k, victim in victims.items() if victim.island == site.island and k not in site.waits_for]
        if missing:
            yield f"{where}: must have the victims that go for {site.island}, {missing[0]} is not among them"


def _wrong_hardware(plan: Plan, placement: Placement, cluster: Cluster) -> Iterator[str]:
    if placement.cluster != cluster.name:
        yield f"placement_report.cluster: must be the scenario's, {cluster.name!r}, got {placement.cluster!r}"
    nodes = {node.name: node for node in cluster.nodes}
    types = {island.id: island.gpu for island in plan.islands}
    for index, part in enumerate(placement.parts):
        for fault in _wrong_place(part, nodes.get(part.node), types.get(part.island)):
            yield f"placement.{index}.{fault}"
    pods = {pod.key for pod in cluster.pods} if placement.victims else set()
    for index, victim in enumerate(placement.victims):
        if victim.pod not in pods:
            yield f"placement_report.victims.{index}.pod: must be a pod of the cluster, got {victim.pod!r}"


def _wrong_place(part: PlacedPart, node: ClusterNode | None, gpu_type: str | None) -> Iterator[str]:
    if node is None:
        yield f"node: must be a node of the cluster, got {part.node!r}"
        return
    numas = {gpu.index: gpu.numa for gpu in node.gpus}
    missing = [gpu for gpu in part.gpu_indices if gpu not in numas]
    if missing:
        yield f"gpu_indices: must exist on {node.name}, got {missing[0]}"
    elif set(part.numa_nodes) != {numas[gpu] for gpu in part.gpu_indices}:
        yield f"numa_nodes: must be those of the GPUs on {node.name}, got {list(part.numa_nodes)}"
    if node.gpu != gpu_type:
        yield f"node: must have the island's GPU type, {gpu_type}, {node.name} has {node.gpu}"
    if node.asw != part.asw:
        yield f"asw: must be that of {node.name}, {node.asw!r}, got {part.asw!r}"
