"""Groups and rollouts that the fleet has room for: copies of several pods on several hosts, and no copy beside the
plan's while a new version comes up.

symbol   meaning                                          source
surge    copies above `replicas` during a rollout         Deployment strategy, LeaderWorkerSet rolloutStrategy
default  surge of a Deployment that names none = 25 % of  apps/v1 Deployment
         its replicas, rounded up
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from planner.export.checking.expectation import Expectation, Owned
from planner.export.checking.pods.workloads import copy_gpus
from planner.export.checking.tables import told_inventory
from planner.export.found import Fault, FoundWorkload, Manifest
from planner.export.objects.names import label_value
from planner.export.objects.pods import GPU_LABEL
from planner.export.objects.scheduling import HOSTNAME
from planner.export.targets.lws import EXCLUSIVE

_DEFAULT_SURGE = 0.25
_PATHS = {
    "Deployment": ("strategy", "rollingUpdate"),
    "LeaderWorkerSet": ("rolloutStrategy", "rollingUpdateConfiguration"),
}


def spread_faults(workload: FoundWorkload) -> Iterator[Fault]:
    """A copy of several pods takes whole hosts or none shares one, so that no host holds all of it."""
    if workload.annotations.get(EXCLUSIVE) == HOSTNAME and workload.pods_per_copy > 1:
        where = f"{workload.annotations_path}.{EXCLUSIVE}"
        rule = f"must be the label of a switch, as a copy has {workload.pods_per_copy} pods on as many hosts"
        yield workload.manifest.fault(where, rule, HOSTNAME)


def surge_faults(manifests: Sequence[Manifest], owned: Sequence[Owned], expected: Expectation) -> Iterator[Fault]:
    """Rollouts that ask for more GPUs of a type than the plan leaves idle."""
    there = dict(expected.plan.inventory) if expected.plan else told_inventory(manifests)
    idle: Counter[str] = Counter({label_value(gpu): count for gpu, count in there.items()})
    for item in owned:
        idle[item.workload.labels.get(GPU_LABEL, "")] -= item.workload.replicas * copy_gpus(item.workload)
    for item in owned:
        workload, spare = item.workload, idle[item.workload.labels.get(GPU_LABEL, "")]
        path, surge = _surge(workload)
        if surge * copy_gpus(workload) > max(0, spare):
            rule = f"must be 0, or a rollout waits for {surge * copy_gpus(workload)} GPUs and {max(0, spare)} are idle"
            yield workload.manifest.fault(path, rule, surge)


def _surge(workload: FoundWorkload) -> tuple[str, int]:
    """Field and number of copies that a rollout makes above the plan's."""
    if workload.manifest.kind not in _PATHS:
        return "", 0
    kind, key = _PATHS[workload.manifest.kind]
    strategy: Mapping[str, Any] = workload.manifest.body["spec"].get(kind, {})
    if strategy.get("type") == "Recreate":
        return "", 0
    default = _DEFAULT_SURGE if workload.manifest.kind == "Deployment" else 0
    came = strategy.get(key, {}).get("maxSurge", default)
    return f"spec.{kind}.{key}.maxSurge", _copies(came, workload.replicas)


def _copies(surge: object, replicas: int) -> int:
    """A number of copies, or a share of them as `25%`, rounded up."""
    if isinstance(surge, int):
        return surge
    share = surge if isinstance(surge, float) else float(str(surge).removesuffix("%")) / 100
    return math.ceil(share * replicas)
