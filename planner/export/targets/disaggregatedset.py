"""Target `disaggregatedset`: DisaggregatedSets whose roles are the islands, a Service for each, the routing table.

One set takes ten roles; more islands come in several sets (`role_sets`). A set has one slice: a second one would be a
second copy of its islands. GPUs of a role = replicas (groups) x size (pods of a group) x the container's GPU limit.
Sources: disaggregatedset.x-k8s.io/v1 (kubernetes-sigs/lws): its schema, and its admission webhook, which limits the
generated names and refuses a placement policy beside the exclusive-topology annotations. Neither knows phases: a role's
name is anybody's. Its controller makes of each role a LeaderWorkerSet `<set>-<slice>-<revision>-<role>`, whose name
nobody knows beforehand, labels all pods with set and role, and keeps the roles of a set in step during a rollout
(KEP-766); sets know nothing of each other, and a placement policy shares its switch with other sets (KEP-848).
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

from planner.domain import PHASES, SWITCH_LEVELS
from planner.errors import ExportError, InputError
from planner.export.engines.seam import Launch
from planner.export.found import FoundWorkload, Kind, Manifest
from planner.export.islands import ServingIsland
from planner.export.objects.documents import yaml_text
from planner.export.objects.explanation import island_comments, operating_notes
from planner.export.objects.names import DIGEST, plan_labels, plan_slug
from planner.export.objects.pods import (
    check_gpus_told_apart,
    island_pods,
    island_service,
    launch_ports,
    workload_labels,
)
from planner.export.objects.router_objects import router_object_files
from planner.export.objects.scheduling import switch_domains
from planner.export.seams import Deployment, Endpoint, Target, TargetFiles
from planner.export.summary import island_annotations
from planner.export.targets.lws import (
    RENDEZVOUS,
    answering_index,
    exclusive_annotation,
    found_group,
    leader_worker_spec,
    packing_notes,
)
from planner.export.targets.role_sets import FEWEST_ROLES, RoleSet, role_sets

KIND = "DisaggregatedSet"
SET_LABEL = "disaggregatedset.x-k8s.io/name"
ROLE_LABEL = "disaggregatedset.x-k8s.io/role"
LONGEST_LABEL = 63
# "-0-<8 of revision>-" between set and role, "-" before the group's number, "-<10 of hash>" of the revision label
_GENERATED = 12 + 1 + 11

_SHOWN_SHARE = 0.0005  # shares that are not 0.0 % in words


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """One of `count` sets: its name and file, its islands, and a deployment of these alone."""

    number: int
    count: int
    name: str
    file: str
    roles: RoleSet
    deployment: Deployment


def generated_length(name: str, role: str, replicas: int) -> int:
    """Characters of the longest name that controllers make of a role with so many groups."""
    return len(name) + len(role) + _GENERATED + len(str(max(0, replicas - 1)))


def _manifests(deployment: Deployment, /) -> TargetFiles:
    """`disaggregatedset.yaml` (`disaggregatedset-1.yaml` and so on where there are several), and `services.yaml`.

    Raises:
        ExportError: fewer than 2 serving islands, one of both phases, a phase that no island serves, or what `lws`
            cannot express either.
        InputError: an island's id that leaves no room for the set's name.
    """
    _check_roles(deployment)
    check_gpus_told_apart(deployment)
    parts = _parts(deployment)
    names = {island.id: part.name for part in parts for island in part.roles.islands}
    launches = {island.id: deployment.engine.launch(island, RENDEZVOUS) for island in deployment.islands}
    endpoints = [_endpoint(island, names[island.id], launches[island.id]) for island in deployment.islands]
    files = {
        part.file: yaml_text(
            (*(_split_notes(parts, deployment) if part is parts[0] else ()), *_comments(part, launches)),
            [_disaggregated_set(part.name, part.deployment, launches)],
        )
        for part in parts
    }
    files["services.yaml"] = yaml_text(
        ("One Service over the leaders of each role.",),
        [_service(names[island.id], island, deployment, launches[island.id]) for island in deployment.islands],
    )
    return TargetFiles(files=files, endpoints=tuple(endpoints))


def _check_roles(deployment: Deployment) -> None:
    if mixed := [island.id for island in deployment.islands if island.mixed]:
        raise ExportError(
            f"Target disaggregatedset, plan {deployment.plan.scenario.name}: sets join prefill and decode, got "
            f"{', '.join(mixed)}, which does both phases.",
            hint="Export for lws, or plan with serving: split.",
        )
    count = len(deployment.islands)
    if count < FEWEST_ROLES:
        raise ExportError(
            f"Target disaggregatedset: a set has at least {FEWEST_ROLES} roles, one for each serving island, got "
            f"{count} serving island.",
            hint="Export for lws.",
        )
    for phase in PHASES:
        if not any(island.phase is phase for island in deployment.islands):
            raise ExportError(
                f"Target disaggregatedset: sets join prefill and decode, got no island that serves {phase}.",
                hint="Export for lws.",
            )


def _parts(deployment: Deployment) -> tuple[_Part, ...]:
    sets = role_sets(deployment.plan, deployment.islands)
    digits = len(str(len(sets)))
    endings = [f"-{number:0{digits}}" for number in range(1, len(sets) + 1)] if len(sets) > 1 else [""]
    base = _base_name(deployment, endings[0])
    return tuple(
        _Part(
            number=number,
            count=len(sets),
            name=f"{base}{ending}",
            file=f"disaggregatedset{ending}.yaml",
            roles=roles,
            deployment=replace(deployment, islands=roles.islands),
        )
        for number, (ending, roles) in enumerate(zip(endings, sets, strict=True), start=1)
    )


def _base_name(deployment: Deployment, ending: str) -> str:
    """The plan's label, cut further than elsewhere: the controller puts more between it and the role. `ending`: as long
    as the suffix that distinguishes sets."""
    islands = deployment.islands
    digits = max(len(str(island.grouping.groups - 1)) for island in islands)
    # plan_slug leaves room for "-<role>" within the 45 of a workload's name; here 63 have to hold more
    more = "0" * (digits + 4 + len(ending))
    base = plan_slug(
        deployment.options.name or deployment.plan.scenario.name, (f"{island.slug}-{more}" for island in islands)
    )
    for island in islands:
        length = generated_length(f"{base}{ending}", island.slug, island.grouping.groups)
        if length > LONGEST_LABEL:
            raise InputError(
                f"Island {island.id}: the names that the controller makes of set {base + ending!r} and role "
                f"{island.slug!r} must have at most {LONGEST_LABEL} characters, got {length}.",
                hint="Give the island a shorter id, or set a shorter deploy.name.",
            )
    return base


def _service_name(island: ServingIsland) -> str:
    return f"{island.name}-leader"


def _split_notes(parts: Sequence[_Part], deployment: Deployment) -> Iterator[str]:
    """What is lost where one set does not hold the plan."""
    if len(parts) == 1:
        return
    across = sum(part.roles.handed - part.roles.retained for part in parts)
    crossing = (
        f"{across:.1%} of the KV cache goes from one set to another, whose ends may then be of two revisions"
        if across >= _SHOWN_SHARE
        else "no KV cache to speak of goes from one set to another"
    )
    yield (
        f"WARNING: the plan's {len(deployment.islands)} islands take {len(parts)} sets, which roll out each by itself: "
        f"prefill and decode keep their ratio within a set and not between sets, and {crossing}."
    )
    for part in parts:
        if len(part.roles.phases) == 1:
            yield (
                f"WARNING: set {part.name} serves {part.roles.phases[0]} alone, as the plan has fewer islands of the "
                f"other phase than sets."
            )
    if _placement_policy(deployment):
        yield (
            "WARNING: the placement has all islands under one switch; each set asks for one, and nothing says that it "
            "is the same."
        )


def _comments(part: _Part, launches: Mapping[str, Launch]) -> tuple[str, ...]:
    deployment, policy = part.deployment, _placement_policy(part.deployment)
    plan = f"Plan {deployment.plan.scenario.name}"
    if part.count == 1:
        lines = [f"{plan}: a role for each serving island, rolled out together."]
    else:
        lines = [f"{plan}, set {part.number} of {part.count}: a role for each island, rolled out together.", _why(part)]
    if policy:
        lines.append(f"The placement has all roles under one switch: {policy['topology']} is theirs in common.")
    for island in deployment.islands:
        packed = () if policy else packing_notes(island, deployment)
        notes = (*operating_notes(island, deployment), *packed, *launches[island.id].notes)
        lines += island_comments(island, deployment, notes)
    return tuple(lines)


def _why(part: _Part) -> str:
    roles = part.roles
    counts = " and ".join(f"{sum(i.phase is phase for i in roles.islands)} {phase}" for phase in roles.phases)
    if len(roles.phases) == 1:
        return f"Why these {counts} islands: no island of the other phase is left for their set."
    if not roles.handed:
        return f"Why these {counts} islands: no KV cache is handed over here that could keep others together."
    share = f"{roles.retained / roles.handed:.1%}"
    return f"Why these {counts} islands: {share} of the KV cache that its prefill islands hand over stays in the set."


def _disaggregated_set(name: str, deployment: Deployment, launches: Mapping[str, Launch]) -> dict[str, Any]:
    policy = _placement_policy(deployment)
    spec: dict[str, Any] = {"slices": 1}
    if policy:
        spec["placementPolicy"] = policy
    spec["roles"] = [_role(island, deployment, launches[island.id], bool(policy)) for island in deployment.islands]
    return {
        "apiVersion": "disaggregatedset.x-k8s.io/v1",
        "kind": KIND,
        "metadata": {"name": name, "labels": plan_labels(deployment.name)},
        "spec": spec,
    }


def _placement_policy(deployment: Deployment) -> dict[str, str]:
    """The narrowest level with a label at which one switch is above all copies of all islands; empty where there is
    none, or where a Kueue queue does the packing."""
    options = dict(deployment.options.topology_labels)
    ids = {island.id for island in deployment.islands}
    for level in SWITCH_LEVELS:
        if level not in options or deployment.options.queue:
            continue
        domains = switch_domains(deployment, level)
        own_domains = {key: switches for key, switches in domains.items() if key[0] in ids}
        switches = set().union(*own_domains.values())
        if len(switches) == 1 and "" not in switches and {island for island, _ in own_domains} == ids:
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
        "spec": leader_worker_spec(island, deployment, launch),
    }


def _service(name: str, island: ServingIsland, deployment: Deployment, launch: Launch) -> dict[str, Any]:
    return island_service(_service_name(island), island, deployment, _selector(name, island), launch_ports(launch))


def _selector(name: str, island: ServingIsland) -> dict[str, str]:
    return {SET_LABEL: name, ROLE_LABEL: island.slug, **answering_index(island)}


def _endpoint(island: ServingIsland, name: str, launch: Launch) -> Endpoint:
    """Nobody knows the leaders' names beforehand. `name`: of the set."""
    return Endpoint(
        island=island,
        service=_service_name(island),
        port=launch.ports[0].number,
        leaders=(),
        health_path=launch.health_path,
        bootstrap_ports=launch.bootstrap_ports,
        selector=_selector(name, island),
        rank_ports=tuple(port.number for port in launch.rank_ports) if island.by_rank else (),
    )


def _workloads(manifest: Manifest) -> Iterator[FoundWorkload]:
    roles = manifest.body["spec"]["roles"]
    for number, role in enumerate(roles):
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
            template=_template(manifest, role["name"]),
        )


def _template(manifest: Manifest, role_name: str) -> dict[str, Any]:
    """The revision that the pods are of hashes the templates of all roles, so that one that changes rolls out all."""
    spec = manifest.body["spec"]
    templates = {role["name"]: role["spec"]["leaderWorkerTemplate"] for role in spec["roles"]}
    others = json.dumps({name: templates[name] for name in sorted(templates) if name != role_name}, sort_keys=True)
    digest = sha256(others.encode()).hexdigest()[:DIGEST]
    return {
        "leaderWorkerTemplate": templates[role_name],
        "placementPolicy": spec.get("placementPolicy", {}),
        "templates of the other roles": digest,
    }


DISAGGREGATED_SET = Target(
    name="disaggregatedset",
    manifests=_manifests,
    pods_of=island_pods,
    kinds=(
        Kind(
            api_version="disaggregatedset.x-k8s.io/v1",
            kind=KIND,
            schema="disaggregatedset.json",
            workloads=_workloads,
        ),
    ),
    processes=router_object_files,
    unheeded=("namespace", "autoscaling"),  # the set keeps the copies of its roles
)
