"""Target `disaggregatedset`: one DisaggregatedSet whose roles are the islands, a Service for each, the routing table.

GPUs of a role = replicas (groups) x size (pods of a group) x the container's GPU limit. The set has one slice: a second
one would be a second copy of the plan.
Sources: disaggregatedset.x-k8s.io/v1 (kubernetes-sigs/lws): its schema, and its admission webhook, which limits the
generated names and refuses a placement policy beside the exclusive-topology annotations. Its controller makes of each
role a LeaderWorkerSet `<set>-<slice>-<revision>-<role>`, whose name nobody knows beforehand, and labels all pods with
set and role.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from planner.domain import DeployedPlan, Phase
from planner.errors import ExportError, InputError
from planner.export.documents import yaml_text
from planner.export.explanation import island_comments
from planner.export.found import Fault, FoundWorkload, Kind, Manifest
from planner.export.islands import ServingIsland
from planner.export.names import plan_slug
from planner.export.options import LEVELS
from planner.export.packing import switch_domains
from planner.export.pods import check_gpus_told_apart, workload_labels
from planner.export.routing import Endpoint
from planner.export.seams import Deployment, Launch, Target
from planner.export.services import island_service, launch_ports
from planner.export.shared_files import shared_files
from planner.export.summary import island_annotations
from planner.export.targets.lws import (
    EXCLUSIVE,
    INDEX_LABEL,
    RENDEZVOUS,
    exclusive_annotation,
    found_group,
    leader_worker_template,
    packing_notes,
)

SET_LABEL = "disaggregatedset.x-k8s.io/name"
ROLE_LABEL = "disaggregatedset.x-k8s.io/role"
_FEWEST_ROLES, _MOST_ROLES = 2, 10
_SUBGROUP_EXCLUSIVE = "leaderworkerset.sigs.k8s.io/subgroup-exclusive-topology"
_LONGEST_LABEL = 63
# "-0-<8 of revision>-" between set and role, "-" before the group's number, "-<10 of hash>" of the revision label
_GENERATED = 12 + 1 + 11


def _manifests(deployment: Deployment, /) -> dict[str, str]:
    """`disaggregatedset.yaml`, `services.yaml`, and what all targets add.

    Raises:
        ExportError: fewer than 2 or more than 10 serving islands, a phase that no island serves, or what `lws` cannot
            express either.
        InputError: an island's id that leaves no room for the set's name.
    """
    _check_roles(deployment)
    check_gpus_told_apart(deployment)
    name = _set_name(deployment)
    launches = {island.id: deployment.engine.launch(island, RENDEZVOUS) for island in deployment.islands}
    endpoints = [
        Endpoint(island=i, service=_service_name(i), port=launches[i.id].ports[0].number, leaders=())
        for i in deployment.islands
    ]
    files = {
        "disaggregatedset.yaml": yaml_text(
            _comments(deployment, launches), [_disaggregated_set(name, deployment, launches)]
        ),
        "services.yaml": yaml_text(
            ("One Service over the leaders of each role.",),
            [_service(name, island, deployment, launches[island.id]) for island in deployment.islands],
        ),
    }
    return files | shared_files(deployment, endpoints)


def _check_roles(deployment: Deployment) -> None:
    count = len(deployment.islands)
    if not _FEWEST_ROLES <= count <= _MOST_ROLES:
        raise ExportError(
            f"Target disaggregatedset: one set has {_FEWEST_ROLES} to {_MOST_ROLES} roles, one for each serving "
            f"island; got {count} serving islands.",
            hint="Export for lws, or plan with fewer and larger islands.",
        )
    for phase in Phase:
        if not any(island.phase is phase for island in deployment.islands):
            raise ExportError(
                f"Target disaggregatedset: a set joins prefill and decode, got no island that serves {phase}.",
                hint="Export for lws.",
            )


def _set_name(deployment: Deployment) -> str:
    """The plan's label, cut further than elsewhere: the controller puts more between it and the role."""
    islands = deployment.islands
    digits = max(len(str(island.grouping.groups - 1)) for island in islands)
    # plan_slug leaves room for "-<role>" within the 45 of a workload's name; here 63 have to hold more
    more = "0" * (digits + 4)
    name = plan_slug(
        deployment.options.name or deployment.plan.scenario.name, (f"{island.slug}-{more}" for island in islands)
    )
    for island in islands:
        length = _generated_length(name, island.slug, island.grouping.groups)
        if length > _LONGEST_LABEL:
            raise InputError(
                f"Island {island.id}: the names that the controller makes of set {name!r} and role {island.slug!r} "
                f"must have at most {_LONGEST_LABEL} characters, got {length}.",
                hint="Give the island a shorter id, or set a shorter ExportOptions.name.",
            )
    return name


def _generated_length(name: str, role: str, replicas: int) -> int:
    return len(name) + len(role) + _GENERATED + len(str(max(0, replicas - 1)))


def _service_name(island: ServingIsland) -> str:
    return f"{island.name}-leader"


def _comments(deployment: Deployment, launches: Mapping[str, Launch]) -> tuple[str, ...]:
    policy = _placement_policy(deployment)
    told = [f"Plan {deployment.plan.scenario.name}: a role for each serving island, rolled out together."]
    if policy:
        told.append(f"The placement has all roles under one switch: {policy['topology']} is theirs in common.")
    for island in deployment.islands:
        packed = () if policy else packing_notes(island, deployment)
        told += island_comments(island, deployment, (*packed, *launches[island.id].notes))
    return tuple(told)


def _disaggregated_set(name: str, deployment: Deployment, launches: Mapping[str, Launch]) -> dict[str, Any]:
    policy = _placement_policy(deployment)
    spec: dict[str, Any] = {"slices": 1}
    if policy:
        spec["placementPolicy"] = policy
    spec["roles"] = [_role(island, deployment, launches[island.id], bool(policy)) for island in deployment.islands]
    own = {"app.kubernetes.io/part-of": deployment.name, "app.kubernetes.io/managed-by": "planner"}
    return {
        "apiVersion": "disaggregatedset.x-k8s.io/v1",
        "kind": "DisaggregatedSet",
        "metadata": {"name": name, "labels": own},
        "spec": spec,
    }


def _placement_policy(deployment: Deployment) -> dict[str, str]:
    """The narrowest level with a label at which one switch is above all copies of all islands; empty where there is
    none, or where a Kueue queue does the packing."""
    options = dict(deployment.options.topology_labels)
    for level in LEVELS:
        if level not in options or deployment.options.queue:
            continue
        found = switch_domains(deployment, level)
        placed = {island for island, _ in found}
        switches = set().union(*found.values())
        if len(switches) == 1 and "" not in switches and placed >= {island.id for island in deployment.islands}:
            return {"type": "ExclusiveSlice", "topology": options[level]}
    return {}


def _role(island: ServingIsland, deployment: Deployment, launch: Launch, by_policy: bool) -> dict[str, Any]:
    exclusive = {} if by_policy else exclusive_annotation(island, deployment)
    return {
        "name": island.slug,
        "metadata": {
            "labels": workload_labels(island, deployment),
            "annotations": island_annotations(island, deployment) | exclusive,
        },
        "spec": {
            "replicas": island.grouping.groups,
            "startupPolicy": "LeaderCreated",
            "leaderWorkerTemplate": leader_worker_template(island, deployment, launch),
        },
    }


def _service(name: str, island: ServingIsland, deployment: Deployment, launch: Launch) -> dict[str, Any]:
    selector = {SET_LABEL: name, ROLE_LABEL: island.slug, INDEX_LABEL: "0"}
    return island_service(_service_name(island), island, deployment, selector, launch_ports(launch))


def _workloads(manifest: Manifest) -> Iterator[FoundWorkload]:
    for number, role in enumerate(manifest.body["spec"]["roles"]):
        path = f"spec.roles.{number}"
        template = f"{path}.spec.leaderWorkerTemplate"
        yield FoundWorkload(
            manifest=manifest,
            labels=role["metadata"]["labels"],
            annotations=role["metadata"].get("annotations", {}),
            labels_path=f"{path}.metadata.labels",
            annotations_path=f"{path}.metadata.annotations",
            replicas=role["spec"]["replicas"],
            replicas_path=f"{path}.spec.replicas",
            size_path=f"{template}.size",
            pods=found_group(
                "",
                role["spec"]["leaderWorkerTemplate"],
                template,
                {SET_LABEL: manifest.name, ROLE_LABEL: role["name"]},
            ),
            leader_address=RENDEZVOUS.leader_address,
            pod_index=RENDEZVOUS.pod_index,
        )


def _faults(manifests: Sequence[Manifest], plan: DeployedPlan | None) -> Iterator[Fault]:  # noqa: ARG001  # the seam's
    """What the admission webhook refuses."""
    for manifest in manifests:
        if manifest.kind == "DisaggregatedSet":
            yield from _role_faults(manifest)


def _role_faults(manifest: Manifest) -> Iterator[Fault]:
    spec = manifest.body["spec"]
    seen: set[str] = set()
    for number, role in enumerate(spec["roles"]):
        where, name = f"spec.roles.{number}", role["name"]
        if name in seen:
            yield manifest.fault(f"{where}.name", "must be unique", name)
        seen.add(name)
        length = _generated_length(manifest.name, name, role["spec"]["replicas"])
        if length > _LONGEST_LABEL:
            yield manifest.fault(f"{where}.name", f"must give names of at most {_LONGEST_LABEL} characters", length)
        if spec.get("placementPolicy", {}).get("type", "None") != "None":
            yield from _exclusive_faults(manifest, role, where)


def _exclusive_faults(manifest: Manifest, role: Mapping[str, Any], where: str) -> Iterator[Fault]:
    templates = role["spec"]["leaderWorkerTemplate"]
    held = {f"{where}.metadata": role["metadata"]}
    for key in ("leaderTemplate", "workerTemplate"):
        if key in templates:
            held[f"{where}.spec.leaderWorkerTemplate.{key}.metadata"] = templates[key]["metadata"]
    for path, metadata in held.items():
        for key in (EXCLUSIVE, _SUBGROUP_EXCLUSIVE):
            if key in metadata.get("annotations", {}):
                yield manifest.fault(
                    f"{path}.annotations.{key}",
                    "must not stand beside spec.placementPolicy",
                    metadata["annotations"][key],
                )


DISAGGREGATED_SET = Target(
    name="disaggregatedset",
    engines=("vllm", "sglang"),
    manifests=_manifests,
    kinds=(
        Kind(
            api_version="disaggregatedset.x-k8s.io/v1",
            kind="DisaggregatedSet",
            schema="disaggregatedset.json",
            workloads=_workloads,
        ),
    ),
    checks=(_faults,),
)
