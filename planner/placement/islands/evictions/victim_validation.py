"""Looks at a placement's victims from the records alone: whether they may go, the limits, and the order of going.

Nothing of the placer is used here, so that a mistake there shows here.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from math import fsum, isclose

from planner.domain import Cluster, PlacedPart, Placement, PlacementDemand, PlacementSettings, Pod, Victim

ROUNDING = 1e-6


def victim_faults(
    cluster: Cluster, demands: Mapping[str, PlacementDemand], placement: Placement, terms: PlacementSettings
) -> Iterator[str]:
    """Whoever is evicted may be, is described as it is, and makes room for somebody; limits and order hold."""
    pods = {pod.key: pod for pod in cluster.pods}
    nodes: dict[str, set[str]] = defaultdict(set)
    for part in placement.parts:
        nodes[part.island].add(part.node)
    for name, count in Counter(victim.pod for victim in placement.victims).items():
        if count > 1:
            yield f"victim {name}: pod is listed {count} times."
    for victim in placement.victims:
        pod = pods.get(victim.pod)
        if pod is None:
            yield f"victim {victim.pod}: pod is not in the cluster."
            continue
        broken = list(_mistold(victim, pod, terms))
        if victim.island not in demands:
            broken.append("island is not asked for")
        elif pod.node not in nodes[victim.island]:
            broken.append("island has no part on the node")
        for rule in broken:
            yield f"victim {victim.pod} on node {pod.node}, for island {victim.island}: {rule}."
    gone = [pods[victim.pod] for victim in placement.victims if victim.pod in pods]
    yield from _limits(cluster, gone, terms)
    if any(victim.order for victim in placement.victims):
        yield from _order(placement)
        yield from _prefixes(cluster, demands, placement)
    yield from _waits(cluster, demands, placement)


def _mistold(victim: Victim, pod: Pod, terms: PlacementSettings) -> Iterator[str]:
    if not pod.preemptible:
        yield "preemptible is false"
    if pod.locked:
        yield "locked is true"
    if not pod.gpus_known:
        yield "its GPUs are not known"
    if pod.priority >= terms.priority:
        yield f"priority {pod.priority} is not below the islands' {terms.priority}"
    listed = (victim.node, victim.priority, victim.gpus)
    if listed != (pod.node, pod.priority, pod.gpu_count):
        yield f"node, priority and gpus are told as {listed}"
    lost = None if pod.checkpoint_age_s is None else pod.checkpoint_age_s * pod.gpu_count / 3600
    if (victim.lost_gpu_hours is None) != (lost is None) or not isclose(victim.lost_gpu_hours or 0.0, lost or 0.0):
        yield f"lost_gpu_hours {victim.lost_gpu_hours} are not {lost}"


def _limits(cluster: Cluster, gone: Sequence[Pod], terms: PlacementSettings) -> Iterator[str]:
    if terms.most_victims is not None and len(gone) > terms.most_victims:
        yield f"victims: {len(gone)} pods go, most_victims is {terms.most_victims}."
    ages = {pod.key: terms.assumed_checkpoint_age_s for pod in gone}
    ages |= {pod.key: pod.checkpoint_age_s for pod in gone if pod.checkpoint_age_s is not None}
    if terms.lost_work_counts or terms.most_lost_gpu_hours is not None:
        for key in (key for key, age in ages.items() if age is None):
            yield f"victim {key}: its checkpoint is not known, and lost work is limited or counts."
    if terms.most_lost_gpu_hours is not None:
        # Exact, as a limit may be met to the last digit, whatever the order of the pods.
        lost = fsum((ages[pod.key] or 0.0) * pod.gpu_count / 3600 for pod in gone)
        if lost > terms.most_lost_gpu_hours + ROUNDING:
            yield f"victims: {lost:g} GPU-hours are lost, most_lost_gpu_hours is {terms.most_lost_gpu_hours:g}."
    allowed = {budget.name: budget.allowed for budget in cluster.disruption_budgets}
    for budget, count in sorted(Counter(pod.disruption_budget for pod in gone if pod.disruption_budget).items()):
        if count > allowed.get(budget, 0):
            yield f"victims: {count} pods of disruption budget {budget} go, it allows {allowed.get(budget, 0)}."


def _order(placement: Placement) -> Iterator[str]:
    orders = sorted(victim.order for victim in placement.victims)
    if orders != list(range(1, len(orders) + 1)):
        yield f"victims: order must count from 1 to {len(orders)}, each once."
        # Runs of an order that is none say nothing.
        return
    listed = sorted(placement.victims, key=lambda victim: victim.order)
    for kind, runs in (
        ("island", [key for key, _ in groupby(listed, key=lambda victim: (victim.island,))]),
        ("node", [key for key, _ in groupby(listed, key=lambda victim: (victim.island, victim.node))]),
    ):
        if len(set(runs)) < len(runs):
            yield f"victims: order must keep the pods of one {kind} together."


def _prefixes(cluster: Cluster, demands: Mapping[str, PlacementDemand], placement: Placement) -> Iterator[str]:
    """Once the pods of an island are gone, it fits beside those that are still there and the islands before it."""
    order = {victim.pod: victim.order for victim in placement.victims}
    complete: dict[str, int] = {}
    for victim in placement.victims:
        complete[victim.island] = max(complete.get(victim.island, 0), victim.order)
    touched = {victim.node for victim in placement.victims}
    parts: dict[str, list[PlacedPart]] = defaultdict(list)
    pods: dict[str, list[Pod]] = defaultdict(list)
    for part in placement.parts:
        if part.node in touched and part.island in complete and part.island in demands:
            parts[part.node].append(part)
    for pod in cluster.pods:
        if pod.node in touched:
            pods[pod.node].append(pod)
    had = {node.name: (node.cpus, node.memory_gb) for node in cluster.nodes}
    for node in sorted(parts):
        for island in sorted({part.island for part in parts[node]}):
            still_here = [pod for pod in pods[node] if order.get(pod.key, len(order) + 1) > complete[island]]
            up = [part for part in parts[node] if complete[part.island] <= complete[island]]
            for fault in _crowded(still_here, up, demands, had.get(node, (0.0, 0.0))):
                yield f"victims up to {complete[island]}, the last for island {island}: on node {node} {fault}."


def _waits(cluster: Cluster, demands: Mapping[str, PlacementDemand], placement: Placement) -> Iterator[str]:
    """Islands wait for the first victims of their nodes, their own among them; whoever is up then finds room."""
    waits = {site.island: set(site.waits_for) for site in placement.sites if site.waits_for is not None}
    for island, orders in sorted(waits.items()):
        nodes = {part.node for part in placement.parts if part.island == island}
        here = {victim.order: victim for victim in placement.victims if victim.node in nodes}
        if wrong := sorted(orders - here.keys()):
            yield f"island {island}: waits_for {wrong} are no victims on its nodes."
        if missing := sorted(k for k, victim in here.items() if victim.island == island and k not in orders):
            yield f"island {island}: waits_for must have {missing}, victims that go for it."
        # Pods of a node go in their order, so that whoever waits for one waits for those before it.
        last = {here[k].node: k for k in sorted(orders & here.keys())}
        if passed := sorted(k for k, victim in here.items() if k < last.get(victim.node, 0) and k not in orders):
            yield f"island {island}: waits_for must have {passed}, which go before others on the same nodes."
    if waits:
        yield from _up_in_time(cluster, demands, placement, waits)


def _up_in_time(
    cluster: Cluster, demands: Mapping[str, PlacementDemand], placement: Placement, waits: Mapping[str, set[int]]
) -> Iterator[str]:
    """Each node after each of its evictions: the pods still there, and the islands that wait for no later one."""
    going: dict[str, dict[str, int]] = defaultdict(dict)
    for victim in placement.victims:
        going[victim.node][victim.pod] = victim.order
    had = {node.name: (node.cpus, node.memory_gb) for node in cluster.nodes}
    for node in sorted(going.keys() & had.keys()):
        pods = [pod for pod in cluster.pods if pod.node == node]
        parts = [part for part in placement.parts if part.node == node and part.island in demands]
        orders = set(going[node].values())
        for done in sorted({0, *orders}):
            still_here = [pod for pod in pods if going[node].get(pod.key, done + 1) > done]
            up = [part for part in parts if max(waits.get(part.island, orders) & orders, default=0) <= done]
            for fault in _crowded(still_here, up, demands, had[node]):
                yield f"victims up to {done}, whoever waits for no later ones: on node {node} {fault}."


def _crowded(
    pods: Sequence[Pod],
    parts: Sequence[PlacedPart],
    demands: Mapping[str, PlacementDemand],
    had: tuple[float, float],
) -> Iterator[str]:
    for key, clashes in (
        ("GPUs", {index for pod in pods for index in pod.gpus} & {g for part in parts for g in part.gpu_indices}),
        ("cores", {core for pod in pods for core in pod.cores} & {core for part in parts for core in part.cores}),
    ):
        if clashes:
            yield f"{key} {sorted(clashes)} are still held"
    gpus = [(len(part.gpu_indices), demands[part.island]) for part in parts]
    cpus = fsum(max(pod.cpus, len(pod.cores)) for pod in pods) + sum(n * ask.cpus_per_gpu for n, ask in gpus)
    memory = fsum(pod.memory_gb for pod in pods) + fsum(n * ask.memory_gb_per_gpu for n, ask in gpus)
    for key, used, limit, binds in (
        ("CPUs", cpus, had[0], any(ask.cpus_per_gpu for _, ask in gpus)),
        ("GB of memory", memory, had[1], any(ask.memory_gb_per_gpu for _, ask in gpus)),
    ):
        if binds and used > limit * (1 + ROUNDING) + ROUNDING:
            yield f"{used:g} of {limit:g} {key} are asked for"
