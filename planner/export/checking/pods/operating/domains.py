"""Claims of pods: their templates are those of ComputeDomains of these files, and containers use what pods claim."""

from collections.abc import Iterator, Sequence

from planner.export.found import Fault, FoundWorkload, Manifest
from planner.export.objects.operating.domains import KIND


def claim_reference_faults(manifests: Sequence[Manifest], workloads: Sequence[FoundWorkload]) -> Iterator[Fault]:
    """Claims that nobody can meet, and domains that nobody claims from."""
    domains = [manifest for manifest in manifests if manifest.kind == KIND]
    templates = {domain.body["spec"]["channel"]["resourceClaimTemplate"]["name"]: domain for domain in domains}
    claimed: set[str] = set()
    for workload in workloads:
        for pod in workload.pods:
            rows = pod.spec.get("resourceClaims", ())
            for index, row in enumerate(rows):
                name = row["resourceClaimTemplateName"]
                claimed.add(name)
                if name not in templates:
                    where = f"{pod.path}.resourceClaims.{index}.resourceClaimTemplateName"
                    yield workload.manifest.fault(where, "must be the template of a ComputeDomain of these files", name)
            used = {claim["name"] for c in pod.spec["containers"] for claim in c.get("resources", {}).get("claims", ())}
            if used != {row["name"] for row in rows}:
                rule = "must be the claims that the pod makes"
                where = f"{pod.path}.containers.0.resources.claims"
                yield workload.manifest.fault(where, rule, ", ".join(sorted(used)) or "none")
    for name, domain in templates.items():
        if name not in claimed:
            rule = "must be a template that pods of these files claim from"
            yield domain.fault("spec.channel.resourceClaimTemplate.name", rule, name)
