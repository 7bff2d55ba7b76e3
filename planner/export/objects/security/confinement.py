"""How an island's pods are confined: what `hardening` takes from any, less the exemptions that hold for them."""

from collections.abc import Sequence
from typing import Any

from planner.export.islands import ServingIsland
from planner.export.objects.operating.network import registers
from planner.export.objects.security.exemptions import (
    NODE_HOST_PATH,
    RDMA_MEMORY,
    TOKEN,
    WRITABLE,
    Exemption,
    Level,
    loosest,
)
from planner.export.objects.security.hardening import (
    confined,
    confined_pod,
    scratch_environment,
    scratch_mounts,
    scratch_volumes,
)
from planner.export.objects.weights import Source, downloaded, weights_source
from planner.export.seams import Deployment

IPC_LOCK = "IPC_LOCK"
ENFORCE = "pod-security.kubernetes.io/enforce"


def exemptions_of(island: ServingIsland, deployment: Deployment) -> tuple[Exemption, ...]:
    """What holds for the island's pods: the image's, the node's, the target's."""
    by_node = weights_source(island.weights, deployment.options) is Source.NODE
    return (
        *_of_engine(island, deployment),
        *((NODE_HOST_PATH,) if by_node else ()),
        *deployment.target.exemptions,
    )


def _of_engine(island: ServingIsland, deployment: Deployment) -> tuple[Exemption, ...]:
    memory = (RDMA_MEMORY,) if registers(island, deployment) else ()
    return (*deployment.engine.exemptions(island), *memory)


def engine_context(island: ServingIsland, deployment: Deployment) -> dict[str, Any]:
    """The security context of the engine's container."""
    engine = deployment.engine
    adds = (IPC_LOCK,) if registers(island, deployment) else ()
    return confined(_of_engine(island, deployment), user=engine.user, group=engine.group, adds=adds)


def pod_context(island: ServingIsland, deployment: Deployment) -> dict[str, Any]:
    """Fields of the pod beside its containers."""
    return confined_pod(token=any(TOKEN in row.opens for row in exemptions_of(island, deployment)))


def _needs_scratch(island: ServingIsland, deployment: Deployment) -> bool:
    """An image that writes to its own file system is left where it is used to."""
    return not any(WRITABLE in row.opens for row in _of_engine(island, deployment))


def engine_variables(island: ServingIsland, deployment: Deployment) -> list[dict[str, str]]:
    """Where the engine's caches are."""
    return scratch_environment(deployment.engine.name) if _needs_scratch(island, deployment) else []


def engine_mounts(island: ServingIsland, deployment: Deployment) -> list[dict[str, str]]:
    """Folders that it writes to."""
    return scratch_mounts() if _needs_scratch(island, deployment) else []


def engine_folders(island: ServingIsland, deployment: Deployment) -> list[dict[str, Any]]:
    """Volumes of these."""
    return scratch_volumes(downloaded(deployment)) if _needs_scratch(island, deployment) else []


def confinement_notes(island: ServingIsland, deployment: Deployment, more: Sequence[Exemption] = ()) -> tuple[str, ...]:
    """What the namespace can enforce, and what stays open and why; `more`: that a chart or an operator adds."""
    return confinement_words((*exemptions_of(island, deployment), *more))


def confinement_words(exemptions: Sequence[Exemption]) -> tuple[str, ...]:
    """The level of Pod Security that pods with these exemptions keep, and each with its reason."""
    words = {
        Level.RESTRICTED: f"level restricted ({ENFORCE}=restricted on the namespace)",
        Level.BASELINE: f"level baseline ({ENFORCE}=baseline on the namespace), not restricted",
        Level.PRIVILEGED: f"label the namespace {ENFORCE}=privileged",
    }
    return (
        f"Pod Security: {words[loosest(exemptions)]}.",
        *(f"Open, {', '.join(sorted(row.opens))}: {row.why}." for row in exemptions),
    )
