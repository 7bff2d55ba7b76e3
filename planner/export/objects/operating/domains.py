"""ComputeDomains: NVLink between hosts, for copies that span the trays of an NVL72.

NVLink reaches another host's GPUs through IMEX, whose daemons NVIDIA's DRA driver starts on the nodes where pods claim
a channel of a ComputeDomain. An island has one domain, whose template every pod of its copies claims from; the GPUs
come from the device plugin as before. A node has one channel to give, so that only pods which fill their host can
claim.
Source: resource.nvidia.com/v1beta1 (kubernetes-sigs/dra-driver-nvidia-gpu): numNodes is deprecated and 0; claims of
pods as in resource.k8s.io/v1 (KEP-4381).
"""

from typing import Any

from planner.export.islands import ServingIsland
from planner.export.objects.documents import yaml_text
from planner.export.objects.names import plan_labels
from planner.export.seams import Deployment
from planner.export.templating import object_of

FILE = "compute-domains.yaml"
API_VERSION = "resource.nvidia.com/v1beta1"
KIND = "ComputeDomain"
_CLAIM = "nvlink"


def needs_domain(island: ServingIsland) -> bool:
    """Whether the island's copies count on NVLink between hosts."""
    return island.grouping.pods > 1 and island.gpu.gpus_per_nvlink_domain > island.gpu.gpus_per_host


def has_domain(island: ServingIsland, deployment: Deployment) -> bool:
    """Whether the island's pods claim a channel."""
    fills_host = island.grouping.gpus_per_pod == island.gpu.gpus_per_host
    return deployment.options.compute_domains and needs_domain(island) and fills_host


def pod_claims(island: ServingIsland, deployment: Deployment) -> dict[str, Any]:
    """Of the PodSpec: the channel that is claimed."""
    if not has_domain(island, deployment):
        return {}
    return {"resourceClaims": [{"name": _CLAIM, "resourceClaimTemplateName": _template(island)}]}


def container_claims(island: ServingIsland, deployment: Deployment) -> dict[str, Any]:
    """Of the engine's resources: that it uses the channel."""
    return {"claims": [{"name": _CLAIM}]} if has_domain(island, deployment) else {}


def domain_files(deployment: Deployment) -> dict[str, str]:
    """The file of the domains; empty where none is asked for, or no copy needs one."""
    islands = [island for island in deployment.islands if has_domain(island, deployment)]
    if not islands:
        return {}
    comments = (
        "NVLink between the hosts of a copy: NVIDIA's DRA driver has to run with ComputeDomains on.",
        "Where pods land decides who shares NVLink: keep a copy inside a rack (--topology).",
    )
    return {FILE: yaml_text(comments, [_domain(island, deployment) for island in islands])}


def domain_notes(island: ServingIsland, deployment: Deployment) -> tuple[str, ...]:
    """What the reader must know of NVLink between hosts."""
    if has_domain(island, deployment):
        claim = f"Pods claim NVLink between hosts from ComputeDomain {island.name} ({FILE})."
        return (claim, *_apart(island, deployment))
    if not needs_domain(island):
        return ()
    why = (
        f"and pods of {island.grouping.gpus_per_pod} GPUs cannot each claim the one channel of a host"
        if deployment.options.compute_domains
        else "which are not written here (--compute-domains, for lws and disaggregatedset)"
    )
    return (
        "WARNING: the plan's rates count on NVLink between hosts, which these pods reach only with IMEX: on Kubernetes "
        f"a ComputeDomain ({API_VERSION}) and its resource claim, {why}.",
    )


def _apart(island: ServingIsland, deployment: Deployment) -> tuple[str, ...]:
    """Said of copies that the placement has in several NVLink domains: the placer keeps those in one that fit one."""
    placement = deployment.plan.placement
    sites = [site for site in placement.sites if site.island == island.id] if placement else []
    if not any(site.crossing_domains for site in sites):
        return ()
    return (
        f"WARNING: the plan has {sites[0].crossing_domains} of {sites[0].gpus // island.parallel.devices} copies in "
        "several NVLink domains, which no ComputeDomain joins; its rates count on the network there.",
    )


def _template(island: ServingIsland) -> str:
    return f"{island.name}-{_CLAIM}"


def _domain(island: ServingIsland, deployment: Deployment) -> dict[str, Any]:
    labels = plan_labels(deployment.name)
    return object_of("compute-domain", name=island.name, labels=labels, claim=_template(island))
