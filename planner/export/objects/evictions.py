"""Who has to go before a plan's islands come up, as a script: evictions of policy/v1 in the plan's order.

An eviction asks the API server, which keeps to disruption budgets; a pod that is gone, or that runs on another node by
now (a StatefulSet gives a new pod the old name), is passed over, so that the script may be run again.
Sources: Kubernetes' docs/concepts/scheduling-eviction/api-eviction (the eviction subresource, answers 201, 429 and
404) and pod-priority-preemption (pods without a class have priority 0, or the default class's).
"""

import shlex
from collections.abc import Iterable, Iterator

from planner.domain import Placement
from planner.errors import InputError
from planner.export.objects.names import MAX_DNS_LABEL, is_dns_subdomain
from planner.export.seams import Deployment
from planner.export.templating import script_of

FILE = "evictions.sh"
KIND = "evictions"

Eviction = tuple[str, str, str]
"""Namespace, pod, node."""

_UNPROTECTED = (
    "WARNING: the islands' pods name no priority class: kube-scheduler evicts nobody for them, and does not keep the "
    "freed GPUs for them. Export with --priority-class, or plan with placement.priority_class."
)


def eviction_files(deployment: Deployment, *, classed: bool) -> dict[str, str]:
    """The script, where pods have to go; `classed`: the target gives its pods a priority class where one is named.

    Raises:
        InputError: a victim, its namespace or its node has a name that Kubernetes does not allow.
    """
    placement = deployment.plan.placement
    if placement is None or not placement.victims:
        return {}
    unprotected = classed and not deployment.options.priority_class
    comments = [_UNPROTECTED, *_comments(placement)] if unprotected else _comments(placement)
    return {FILE: script_of("evictions", comments=comments, lines=list(_lines(placement)))}


def eviction_script(pod: str, node: str) -> str:
    """The script that evicts one pod, if it still runs on its node. Raises InputError as `evictions_of` does."""
    words = eviction_of(pod, node)
    why = f"{pod} goes, so that a plan's islands find a better place."
    return script_of("evictions", comments=(why,), lines=[("evict", *words)])


def _comments(placement: Placement) -> Iterator[str]:
    pods, gpus = len(placement.victims), sum(victim.gpus for victim in placement.victims)
    yield (
        f"{pods} pod{'s' * (pods > 1)} with {gpus} GPUs must go before the plan's islands can come up. Whatever is "
        "carried out from the beginning, islands whose pods are all gone have room."
    )
    yield f"Run it just before the manifests are applied: bash {FILE}"
    yield "Pods that a controller brings back go again where the islands' priority class is higher, and only there."


def evictions_of(placement: Placement) -> tuple[Eviction, ...]:
    """The victims in the order in which they go.

    Raises:
        InputError: a name that Kubernetes has for none.
    """
    return tuple(eviction_of(victim.pod, victim.node) for victim in placement.victims)


def eviction_of(key: str, node: str) -> Eviction:
    """The eviction of a pod by its key, NAMESPACE/NAME. Raises InputError for a name that Kubernetes has for none."""
    namespace, _, pod = key.partition("/")
    for field, name, longest in (("namespace", namespace, MAX_DNS_LABEL), ("pod", pod, None), ("node", node, None)):
        if not _is_name(name, longest):
            raise InputError(
                f"Placement, victim {key!r}: its {field} must be a Kubernetes name to be evicted, got {name!r}.",
                hint="Import the cluster from the running one: its names are Kubernetes'.",
            )
    return namespace, pod, node


def _is_name(name: str, longest: int | None) -> bool:
    return is_dns_subdomain(name) and (longest is None or (len(name) <= longest and "." not in name))


def _lines(placement: Placement) -> Iterator[str | tuple[str, ...]]:
    for victim, words in zip(placement.victims, evictions_of(placement), strict=True):
        yield f"# {victim.order}: for {victim.island}; priority {victim.priority}, {victim.gpus} GPUs"
        yield "evict", *words


def read_evictions(text: str) -> Iterator[object]:
    """The evictions of a script as one body.

    Raises:
        ValueError: a line that does not belong to such a script.
    """
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    blank = script_of("evictions", comments=(), lines=())
    begin = [line for line in blank.splitlines() if not line.startswith("#")]
    if lines[: len(begin)] != begin:
        raise ValueError("it must begin as the planner writes it")
    yield {"evictions": [_read(line) for line in lines[len(begin) :]]}


def _read(line: str) -> dict[str, str]:
    command, *names = shlex.split(line)
    if command != "evict" or len(names) != 3 or not _all_names(names) or shlex.join((command, *names)) != line:
        raise ValueError(f"line {line!r} must be `evict NAMESPACE POD NODE`")
    return dict(zip(("namespace", "pod", "node"), names, strict=True))


def _all_names(names: Iterable[str]) -> bool:
    namespace, *others = names
    return _is_name(namespace, MAX_DNS_LABEL) and all(_is_name(name, None) for name in others)
