"""What pods have that a policy engine refuses, and why they cannot do without: the only list of it.

All else that is exported keeps Pod Security's level `restricted`, has a root file system that nobody writes to, and no
token of the API server. A row opens fields of a pod or of its containers; engines, targets and routers name the rows
that hold for them (`Engine.exemptions`, `Target.exemptions`), the manifest says them in its comments, and tests hold
every export to this list.

level       what a namespace can enforce with such a pod (pod-security.kubernetes.io/enforce)
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

ROOT, WRITABLE, TOKEN, CAPABILITIES, HOST_PATH = (
    "runAsNonRoot",
    "readOnlyRootFilesystem",
    "automountServiceAccountToken",
    "capabilities",
    "hostPath",
)


class Level(StrEnum):
    """Levels of the Pod Security Standards, the strictest first."""

    RESTRICTED = "restricted"
    BASELINE = "baseline"
    PRIVILEGED = "privileged"


@dataclass(frozen=True, slots=True, kw_only=True)
class Exemption:
    """One reason: the fields that stay `opens`, whose pods have it (`who`), why, and where that is written (`source`).
    `level`: as in the table above. `ours`: whether the exported file has it; else a chart or an operator puts it in.
    """

    name: str
    opens: frozenset[str]
    who: str
    why: str
    source: str
    level: Level = Level.RESTRICTED
    ours: bool = True


SGLANG_IMAGE = Exemption(
    name="sglang-image",
    opens=frozenset({ROOT, WRITABLE}),
    who="engine sglang, images of lmsysorg/sglang",
    why="SGLang's image has root alone as its user, and FlashInfer links kernels into its own package there",
    source="sgl-project/sglang, docker/Dockerfile; ai-dynamo/dynamo pull request 11154",
    level=Level.BASELINE,
)
VLLM_BEFORE_USERS = Exemption(
    name="vllm-image-before-users",
    opens=frozenset({ROOT}),
    who="engine vllm in versions whose image has no user of its own",
    why="the image's Python lies in root's folder",
    source="vllm-project/vllm pull request 40275 of May 2026; docs/deployment/docker.md, Run as a non-root user",
    level=Level.BASELINE,
)
AMD_DEVICES = Exemption(
    name="amd-devices",
    opens=frozenset({ROOT, WRITABLE}),
    who="engines on AMD GPUs",
    why="/dev/kfd belongs to root and to a group whose number is the node's own, and AITER compiles into its package",
    source="ROCm/k8s-device-plugin issue 39; ROCm/aiter, aiter/jit/core.py",
    level=Level.BASELINE,
)
UNTOLD_IMAGE = Exemption(
    name="untold-image",
    opens=frozenset({ROOT, WRITABLE}),
    who="engines whose row says nothing of its image",
    why="nobody has said that its image runs without root, or what it writes to",
    source="Engine.exemptions",
    level=Level.BASELINE,
)
RDMA_MEMORY = Exemption(
    name="rdma-memory",
    opens=frozenset({ROOT, CAPABILITIES}),
    who="pods with RDMA devices (--rdma)",
    why="RDMA locks memory, which takes IPC_LOCK, and Kubernetes gives an added capability to root alone",
    source="kubernetes/kubernetes issue 56374; KEP-2763 (ambient capabilities), not there yet",
    level=Level.PRIVILEGED,
)
NODE_HOST_PATH = Exemption(
    name="node-folder",
    opens=frozenset({ROOT, HOST_PATH}),
    who="the container that fetches weights into a node's folder (--weights node)",
    why="the node's folder is a hostPath, which the kubelet makes for root",
    source="Kubernetes, Volumes: hostPath, DirectoryOrCreate",
    level=Level.PRIVILEGED,
)
DYNAMO_CUBINS = Exemption(
    name="dynamo-sglang-cubins",
    opens=frozenset({WRITABLE}),
    who="target dynamo, engine sglang",
    why="FlashInfer links kernels into its own package, which that image lets its user write to",
    source="ai-dynamo/dynamo pull request 11154",
)
DYNAMO_DISCOVERY = Exemption(
    name="dynamo-discovery",
    opens=frozenset({TOKEN}),
    who="target dynamo, all pods",
    why="Dynamo's pods find each other by the API server",
    source="ai-dynamo/dynamo pull requests 5024 and 10591, docs/kubernetes/service-discovery.md",
)
POOL_CHECK = Exemption(
    name="kserve-pool-check",
    opens=frozenset({TOKEN}),
    who="target kserve, decode pods whose sidecar checks the pool",
    why="the preset's sidecar asks the API server which prefill pods are of its pool",
    source="kserve/kserve, config/llmisvcconfig/config-llm-decode-template.yaml (--enable-ssrf-protection)",
)
WATCHED_PODS = Exemption(
    name="watched-pods",
    opens=frozenset({TOKEN}),
    who="routers that find engines by label (kubernetes, disaggregatedset)",
    why="the program asks the API server for pods, by a Role of its own that reads pods alone",
    source="sgl-project/sglang and vllm-project/router, --service-discovery",
)
GROUP_PRESETS = Exemption(
    name="kserve-group-presets",
    opens=frozenset({CAPABILITIES}),
    who="target kserve, groups of several pods",
    why="KServe's presets of groups add IPC_LOCK, SYS_RAWIO and NET_RAW, and no object can take them away",
    source="kserve/kserve, config/llmisvcconfig/config-llm-worker-data-parallel.yaml",
    level=Level.PRIVILEGED,
    ours=False,
)
CHART_SIDECAR = Exemption(
    name="llm-d-sidecar",
    opens=frozenset({CAPABILITIES, WRITABLE}),
    who="target llm-d, decode pods with a sidecar",
    why="the chart's sidecar keeps the runtime's capabilities, and no value of this version changes that",
    source="llm-d-incubation/llm-d-modelservice v0.4.12, templates/_helpers.tpl",
    level=Level.BASELINE,
    ours=False,
)
EXEMPTIONS = (
    SGLANG_IMAGE,
    VLLM_BEFORE_USERS,
    AMD_DEVICES,
    UNTOLD_IMAGE,
    RDMA_MEMORY,
    NODE_HOST_PATH,
    DYNAMO_CUBINS,
    DYNAMO_DISCOVERY,
    POOL_CHECK,
    WATCHED_PODS,
    GROUP_PRESETS,
    CHART_SIDECAR,
)


def loosest(exemptions: Sequence[Exemption]) -> Level:
    """The strictest level that a namespace can enforce with all of them."""
    order = list(Level)
    return max((row.level for row in exemptions), key=order.index, default=Level.RESTRICTED)
