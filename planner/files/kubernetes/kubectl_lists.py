"""Nodes, pods, budgets and device claims as `kubectl get nodes,pods,pdb,resourceclaims -A -o json` prints them.

A list does not say when it was taken. The latest time in it comes next to that: nodes report their state every few
minutes at least. The same list gives the same ages, whenever it is read.

them. Other kinds of objects are passed over; what cannot be read is named, with the node that it belongs to.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from planner.domain import DisruptionBudget, Pod
from planner.domain.node_report import NodeReport
from planner.errors import InputError
from planner.files.kubernetes.gpu_shares import RESERVATIONS
from planner.files.kubernetes.kubectl_nodes import ReadNode, read_node
from planner.files.kubernetes.kubectl_pods import (
    CLAIM,
    SLICE,
    ClaimedGpus,
    ReadPod,
    allocated_claims,
    claims_of_pod,
    holds_nothing,
    listed_gpus,
    read_pod,
    selects,
)
from planner.files.kubernetes.kubernetes_objects import (
    KubernetesObject,
    below,
    items_below,
    objects_of,
    read_objects,
    string_map,
    without_twins,
)
from planner.files.sections import Section

CONDITION_TIMES = ("lastHeartbeatTime", "lastProbeTime", "lastTransitionTime")
RULE = "a time with its zone, such as 2026-05-04T12:30:00Z"


def parse_time(text: str) -> datetime:
    """A time as RFC 3339 has it. ValueError where it is none, or has no zone."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(RULE)
    return moment


def time_of(section: Section, key: str) -> datetime | None:
    """The time under `key`; None where it is missing or null."""
    if section.is_empty(key):
        return None
    try:
        return parse_time(section.text(key))
    except ValueError:
        raise section.fault(key, RULE) from None


def latest_time(objects: Iterable[KubernetesObject]) -> datetime | None:
    """The latest time that any of the objects tells; None where none does. What is no time says nothing."""
    return max((time for item in objects for time in _times(item)), default=None)


def _times(item: KubernetesObject) -> Iterator[datetime]:
    status = below(item.body, "status")
    sections = [(below(item.body, "metadata"), "creationTimestamp"), (status, "startTime")]
    sections += [(condition, key) for condition in items_below(status, "conditions") for key in CONDITION_TIMES]
    for section, key in sections:
        with suppress(InputError):
            time = time_of(section, key)
            if time is not None:
                yield time


def age_s(item: KubernetesObject, taken_at: datetime | None) -> float | None:
    """Seconds that a pod has been running at the time when the list was taken; None where its start is not told."""
    started = time_of(below(item.body, "status"), "startTime")
    if started is None or taken_at is None:
        return None
    age = (taken_at - started).total_seconds()
    if age < 0:
        raise InputError(
            f"{item.body.file}: status.startTime must not lie after the time when the list was taken, "
            f"{taken_at.isoformat()}, got {started.isoformat()}.",
            hint="Correct --taken-at.",
        )
    return age


KIND = "PodDisruptionBudget"
SEVERAL = "stays where it is, as several disruption budgets select it, and Kubernetes then evicts nobody"


def with_budgets(
    pods: Sequence[tuple[Pod, KubernetesObject]], objects: Iterable[KubernetesObject]
) -> tuple[list[Pod], tuple[DisruptionBudget, ...], list[tuple[str, str]]]:
    """Pods with the budget that each counts in, the budgets, and notes; a pod of several budgets is locked."""
    budgets = [(item, _read(item)) for item in objects]
    budgeted, notes = [], []
    for pod, item in pods:
        labels = dict(string_map(below(item.body, "metadata", "labels"))) if budgets else {}
        covering = [budget for of, budget in budgets if _covers(of, pod, labels)]
        if len(covering) > 1:
            notes.append((f"pod {pod.key}", SEVERAL))
        budget = covering[0].name if len(covering) == 1 else ""
        budgeted.append(replace(pod, disruption_budget=budget, locked=pod.locked or len(covering) > 1))
    return budgeted, tuple(budget for _, budget in budgets), notes


def _covers(budget: KubernetesObject, pod: Pod, labels: dict[str, str]) -> bool:
    """A budget without a selector selects nothing, one with an empty selector every pod of its namespace."""
    spec = below(budget.body, "spec")
    return (
        pod.namespace == (budget.namespace or "default")
        and not spec.is_empty("selector")
        and selects(spec.section("selector"), labels)
    )


def _read(item: KubernetesObject) -> DisruptionBudget:
    """Until its controller has looked at it, a budget allows nothing."""
    status = below(item.body, "status")
    allowed = 0 if status.is_empty("disruptionsAllowed") else status.integer("disruptionsAllowed", low=0)
    name = f"{item.namespace or 'default'}/{item.name}"
    return DisruptionBudget(name=name, allowed=allowed)


KINDS = ("Node", "Pod", KIND, CLAIM, SLICE)
FRACTIONS = "gpu-fraction"
"""What nodes offer whose GPUs are handed out in fractions by a scheduler, not by a device plugin."""

Notes = list[tuple[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class KubectlLists:
    """Nodes and running pods. `ended`: keys of pods that are over. `claims`: of pods that claim devices of which nobody
    says whether they are GPUs.

    `notes`: about what, and the note. `left_out`: keys of pods that are not among `pods`, as their nodes are left out.
    `unreadable`: names of nodes that cannot be read, or a pod of which cannot, and why.
    """

    nodes: tuple[NodeReport, ...]
    pods: tuple[Pod, ...]
    ended: tuple[str, ...] = ()
    claims: tuple[str, ...] = ()
    notes: tuple[tuple[str, str], ...] = ()
    disruption_budgets: tuple[DisruptionBudget, ...] = ()
    left_out: tuple[str, ...] = ()
    unreadable: tuple[tuple[str, InputError], ...] = ()


def read_kubectl(
    paths: tuple[Path, ...],
    taken_at: datetime | None = None,
    *,
    answers: Sequence[Section] = (),
    answered_at: datetime | None = None,
    preempt_unclassed: bool = False,
) -> KubectlLists:
    """Nodes and pods of all files together; InputError where two objects of one name differ.

    `taken_at`: when the lists were taken, from which pods' ages follow (None: at the latest time that is told in them).
    `answers`: lists that an API server gave; `answered_at`: when the last of them came, by its clock.
    `preempt_unclassed`: pods without a priority class may be evicted, too.
    """
    passed: Counter[str] = Counter()
    objects = without_twins(
        (
            *(item for path in paths for item in read_objects(path, KINDS, passed)),
            *objects_of(answers, KINDS, passed),
        )
    )
    notes: Notes = []
    unreadable: dict[str, InputError] = {}
    nodes = _nodes(objects, unreadable)
    pods = [item for item in objects if item.kind == "Pod"]
    running = [item for item in pods if not holds_nothing(item)]
    reads = _read_pods(running, nodes, unreadable, preempt_unclassed=preempt_unclassed)
    reads, claims = _with_claims(reads, allocated_claims(item for item in objects if item.kind == CLAIM), notes)
    # clocks of nodes may go ahead of the server's
    moment = taken_at or max(filter(None, (latest_time(objects), answered_at)), default=None)
    aged = [(replace(read.pod, age_s=age_s(read.item, moment)), read.item) for read in reads]
    budgeted, budgets, budget_notes = with_budgets(aged, [item for item in objects if item.kind == KIND])
    notes += [*((f"pod {read.pod.key}", note) for read in reads for note in read.notes), *budget_notes]
    waiting = sum(1 for item in pods if below(item.body, "spec").is_empty("nodeName"))
    if waiting:
        notes.append((f"{waiting} pods", "left out, as they wait for a node"))
    notes += [(f"{count} {kind} objects", "passed over: not about nodes or their pods") for kind, count in
              sorted(passed.items())]  # fmt: skip
    on_node: dict[str, list[ReadPod]] = defaultdict(list)
    for read in reads:
        on_node[read.pod.node].append(read)
    return KubectlLists(
        nodes=tuple(_with_fractions(node, on_node[name], notes) for name, node in nodes.items()),
        pods=tuple(budgeted),
        ended=tuple(f"{item.namespace or 'default'}/{item.name}" for item in pods if holds_nothing(item)),
        claims=tuple(claims),
        notes=tuple(notes),
        disruption_budgets=budgets,
        unreadable=tuple(unreadable.items()),
    )


def _nodes(objects: Sequence[KubernetesObject], unreadable: dict[str, InputError]) -> dict[str, ReadNode]:
    listed = listed_gpus(item for item in objects if item.kind == SLICE)
    nodes: dict[str, ReadNode] = {}
    for item in objects:
        if item.kind == "Node":
            try:
                nodes[item.name] = read_node(item, listed.get(item.name, ()))
            except InputError as fault:
                unreadable[item.name] = fault
    return nodes


def _read_pods(
    items: Sequence[KubernetesObject],
    nodes: Mapping[str, ReadNode],
    unreadable: dict[str, InputError],
    *,
    preempt_unclassed: bool,
) -> list[ReadPod]:
    """Pods that can be read; a node with one that cannot is not known, as nobody says what it holds."""
    gpus = {name: node.gpus for name, node in nodes.items()}
    reads: list[ReadPod] = []
    for item in items:
        try:
            time_of(below(item.body, "status"), "startTime")
            reads.append(read_pod(item, gpus, preempt_unclassed=preempt_unclassed))
        except InputError as fault:
            unreadable.setdefault(below(item.body, "spec").text("nodeName"), fault)
    return reads


def _with_claims(
    reads: Sequence[ReadPod], allocated: Mapping[str, ClaimedGpus], notes: Notes
) -> tuple[list[ReadPod], list[str]]:
    """Pods with the GPUs of their claims, and the keys of those whose claims nobody resolves. A claim of several pods
    counts with the first of them; who also asks a device plugin for GPUs claims something else.
    """
    counted: set[str] = set()
    claimed: list[ReadPod] = []
    unresolved: list[str] = []
    for read in reads:
        asks = items_below(below(read.item.body, "spec"), "resourceClaims")
        names = claims_of_pod(read.item, allocated) if asks else ()
        if names is None and read.pod.gpu_request:
            notes.append((f"pod {read.pod.key}", "has device claims beside its GPUs: taken for other devices"))
        elif names is None:
            unresolved.append(read.pod.key)
        claims = [allocated[name] for name in names or () if name not in counted]
        counted |= set(names or ())
        gpus = tuple(sorted(index for claim in claims for index in claim.gpus))
        if any(claim.parts for claim in claims):
            notes.append((f"pod {read.pod.key}", "claims parts of GPUs, whose size is not told: counted as nothing"))
        request = read.pod.gpu_request + len(gpus)
        claimed.append(replace(read, pod=replace(read.pod, gpus=gpus, gpu_request=request)) if gpus else read)
    return claimed, unresolved


def _with_fractions(node: ReadNode, node_pods: Sequence[ReadPod], notes: Notes) -> NodeReport:
    """The report without the GPUs that its pods share: at most one a fraction, where no reservation holds them."""
    shared = sum(read.gpus.devices for read in node_pods if read.gpus.share and not read.gpus.of_offer)
    if not shared or any(read.pod.namespace in RESERVATIONS and read.pod.gpu_request for read in node_pods):
        return node.report
    free = max(0, node.gpus.whole - sum(read.pod.gpu_request for read in node_pods))
    cut_up = min(shared, free)
    name = node.report.node
    notes.append((f"node {name}", f"{cut_up} GPUs at most are handed out in fractions: they are not counted as whole"))
    return replace(node.report, whole_gpus=node.gpus.whole - cut_up, offers=(*node.report.offers, (FRACTIONS, cut_up)))
