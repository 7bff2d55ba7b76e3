"""AIBrix' gateway: who takes which lengths by the pods' labels and annotations."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from planner.domain import PHASES, DeployedRoute, Phase
from planner.export.found import Manifest
from planner.export.objects.documents import json_document
from planner.export.routers.aibrix import (
    _COMBINED,
    _PROFILE,
    _ROLES,
    CONFIG_ANNOTATION,
    MODEL_LABEL,
    ROLE_LABEL,
    SET_LABEL,
    SWITCH,
)
from router_reading.records import Addresses

_NO_END = 2**31 - 1  # what the gateway takes an absent maximum for


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pod:
    """A pod as the gateway sees it: lengths `start` <= tokens < `end`."""

    island: str
    role: str
    roleset: str
    start: int
    end: int
    combined: bool


def read(manifests: Sequence[Manifest], addresses: Addresses, /) -> tuple[DeployedRoute, ...] | None:
    switches = [m.body["data"][SWITCH] for m in manifests if m.kind == "ConfigMap" and SWITCH in m.body["data"]]
    if not switches:
        return None
    heeded = switches[0] == "true"
    labelled_pods = (_pod(name, labels, addresses.annotations.get(name, {}), heeded) for name, labels in addresses.pods)
    pods = [pod for pod in labelled_pods if pod is not None]
    cuts = sorted({end for pod in pods for end in (pod.start, pod.end)})
    return tuple(route for start, end in pairwise(cuts) for route in _routes(pods, start, end))


def _pod(name: str, labels: Mapping[str, str], annotations: Mapping[str, str], heeded: bool) -> _Pod | None:
    """None: the gateway does not know the pod, or cannot read what it says."""
    if MODEL_LABEL not in labels or SET_LABEL not in labels or ROLE_LABEL not in labels:
        return None
    try:
        profiles = json_document(annotations[CONFIG_ANNOTATION])
        config = profiles["profiles"][profiles.get("defaultProfile", _PROFILE)].get("routingConfig", {})
        low, high = int(config.get("promptLenBucketMinLength", 0)), int(config.get("promptLenBucketMaxLength", 0))
    except (KeyError, TypeError, ValueError, AttributeError):
        return None
    return _Pod(
        island=name,
        role=labels[ROLE_LABEL],
        roleset=labels[SET_LABEL],
        start=max(0, low) if heeded else 0,
        end=(high or _NO_END) + 1 if heeded else _NO_END + 1,
        combined=heeded and config.get(_COMBINED) is True,
    )


def _routes(pods: Sequence[_Pod], start: int, end: int) -> Iterator[DeployedRoute]:
    """Pairs of one role set that both have the lengths; else combined pods, in both phases."""
    there = [pod for pod in pods if pod.start <= start and end <= pod.end]
    sides = {phase: {(pod.roleset, pod.island) for pod in there if pod.role == _ROLES[phase]} for phase in PHASES}
    sets = {roleset for roleset, _ in sides[Phase.PREFILL]} & {roleset for roleset, _ in sides[Phase.DECODE]}
    alone = sorted(pod.island for pod in there if pod.combined and pod.role not in (_ROLES[phase] for phase in PHASES))
    for phase in PHASES:
        paired = sorted(island for roleset, island in sides[phase] if roleset in sets)
        names = paired if sets else alone
        for name in names:
            yield DeployedRoute(phase=phase, range_start=start, range_end=end, island=name, share=1 / len(names))
