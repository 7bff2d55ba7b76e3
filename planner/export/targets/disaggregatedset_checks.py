"""What only the controllers of DisaggregatedSets would refuse: generated names, policies beside annotations; and
Services of sets that are not there."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from planner.domain import DeployedPlan
from planner.export.found import Fault, Manifest
from planner.export.objects.names import slug
from planner.export.objects.pods import ISLAND_LABEL
from planner.export.targets.lws import EXCLUSIVE

KIND = "DisaggregatedSet"
SET_LABEL = "disaggregatedset.x-k8s.io/name"
ROLE_LABEL = "disaggregatedset.x-k8s.io/role"
LONGEST_LABEL = 63
_SUBGROUP_EXCLUSIVE = "leaderworkerset.sigs.k8s.io/subgroup-exclusive-topology"
# "-0-<8 of revision>-" between set and role, "-" before the group's number, "-<10 of hash>" of the revision label
_GENERATED = 12 + 1 + 11


def generated_length(name: str, role: str, replicas: int) -> int:
    """Characters of the longest name that controllers make of a role with so many groups."""
    return len(name) + len(role) + _GENERATED + len(str(max(0, replicas - 1)))


def set_faults(manifests: Sequence[Manifest], plan: DeployedPlan | None) -> Iterator[Fault]:
    """What the admission webhook refuses, and sets that are not there."""
    sets = [manifest for manifest in manifests if manifest.kind == KIND]
    for manifest in sets:
        yield from _role_faults(manifest)
    present = {
        role["metadata"]["labels"].get(ISLAND_LABEL) for manifest in sets for role in manifest.body["spec"]["roles"]
    }
    # where all islands are there, and without a plan, the check of Services tells the same
    if plan is not None and not {slug(island.id) for island in plan.islands} <= present:
        yield from _missing_sets(manifests, {manifest.name for manifest in sets})


def _missing_sets(manifests: Sequence[Manifest], there: set[str]) -> Iterator[Fault]:
    """Each set that a Service names and no file holds, once."""
    for service in manifests:
        name = service.body["spec"]["selector"].get(SET_LABEL) if service.kind == "Service" else None
        if name is not None and name not in there:
            yield service.fault(f"spec.selector.{SET_LABEL}", f"must be a {KIND} of these files", name)
            there = there | {name}


def _role_faults(manifest: Manifest) -> Iterator[Fault]:
    spec = manifest.body["spec"]
    earlier: set[str] = set()
    for number, role in enumerate(spec["roles"]):
        where, name = f"spec.roles.{number}", role["name"]
        if name in earlier:
            yield manifest.fault(f"{where}.name", "must be unique", name)
        earlier.add(name)
        length = generated_length(manifest.name, name, role["spec"]["replicas"])
        if length > LONGEST_LABEL:
            yield manifest.fault(f"{where}.name", f"must give names of at most {LONGEST_LABEL} characters", length)
        if spec.get("placementPolicy", {}).get("type", "None") != "None":
            yield from _exclusive_faults(manifest, role, where)


def _exclusive_faults(manifest: Manifest, role: Mapping[str, Any], where: str) -> Iterator[Fault]:
    templates = role["spec"]["leaderWorkerTemplate"]
    metadata_of = {f"{where}.metadata": role["metadata"]}
    for key in ("leaderTemplate", "workerTemplate"):
        if key in templates:
            metadata_of[f"{where}.spec.leaderWorkerTemplate.{key}.metadata"] = templates[key]["metadata"]
    for path, metadata in metadata_of.items():
        for key in (EXCLUSIVE, _SUBGROUP_EXCLUSIVE):
            if key in metadata.get("annotations", {}):
                yield manifest.fault(
                    f"{path}.annotations.{key}",
                    "must not stand beside spec.placementPolicy",
                    metadata["annotations"][key],
                )
