"""LeaderWorkerSets whose groups could not come up or come back: the order in which a group's pods start, and what a
restart takes along. DisaggregatedSets hold the same specification in each role.

Source: leaderworkerset.x-k8s.io/v1 (kubernetes-sigs/lws), fields startupPolicy and restartPolicy.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from planner.domain import DeployedPlan
from planner.export.found import Fault, Manifest


def group_policy_faults(manifests: Sequence[Manifest], _plan: DeployedPlan | None) -> Iterator[Fault]:
    """What is wrong with the policies of groups of several pods."""
    for manifest in manifests:
        for path, spec in _specs(manifest):
            group = spec["leaderWorkerTemplate"]
            if group["size"] > 1:
                yield from _policy_faults(manifest, path, spec, group)


def _specs(manifest: Manifest) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if manifest.kind == "LeaderWorkerSet":
        yield "spec", manifest.body["spec"]
    elif manifest.kind == "DisaggregatedSet":
        for index, role in enumerate(manifest.body["spec"]["roles"]):
            yield f"spec.roles.{index}.spec", role["spec"]


def _policy_faults(manifest: Manifest, path: str, spec: Mapping[str, Any], group: Mapping[str, Any]) -> Iterator[Fault]:
    if spec.get("startupPolicy", "LeaderCreated") != "LeaderCreated":
        rule = "must be LeaderCreated: a leader is ready only once its workers have joined"
        yield manifest.fault(f"{path}.startupPolicy", rule, spec["startupPolicy"])
    if group.get("restartPolicy") == "None":
        rule = "must be RecreateGroupOnPodRestart: a pod that starts again joins no copy that runs"
        yield manifest.fault(f"{path}.leaderWorkerTemplate.restartPolicy", rule, group["restartPolicy"])
