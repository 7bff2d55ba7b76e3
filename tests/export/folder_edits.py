"""Edits that leave the plan's deployment as it is: what people and API servers add to sound manifests."""

from plan_edits import Edit, both, pattern, text

_POD = ("lws", "kubernetes", "disaggregatedset", "lws, sglang", "dynamo")
_KUBERNETES = ("lws", "kubernetes", "disaggregatedset", "lws, sglang")
_TOLERATIONS = "( +)tolerations:\n"
_SERVER = (
    "metadata:\n  uid: 6f1c\n  resourceVersion: '7'\n  generation: 2\n  creationTimestamp: '2026-01-01T00:00:00Z'\n"
    "  managedFields:\n  - manager: kubectl\n"
)


def _before_tolerations(words: str) -> Edit:
    """A field of the PodSpec."""
    return pattern(_TOLERATIONS, rf"\g<1>{words}\n\g<0>", every=True)


def _beside(name: str, content: str) -> Edit:
    return lambda files: files | {name: content}


def _live(files: dict[str, str]) -> dict[str, str]:
    """Every object as `kubectl get -o yaml` tells it: in a namespace, with the server's fields and its state."""
    found = {name: body.replace("\nmetadata:\n", f"\n{_SERVER}  namespace: prod\n") for name, body in files.items()}
    return {name: body.replace("\nspec:\n", "\nstatus: {replicas: 1}\nspec:\n") for name, body in found.items()}


EDITS: dict[str, tuple[tuple[str, ...], Edit]] = {
    "requests in another notation": (
        ("lws", "kubernetes", "lws, sglang", "disaggregatedset"),
        pattern(
            r"( +)limits:\n +cpu: (\d+)\n +memory: (\d+)Gi\n",
            lambda found: f"{found[1]}requests: {{cpu: {found[2]}000m, memory: {int(found[3]) * 1024}Mi}}\n{found[0]}",
            every=True,
        ),
    ),
    "a flag in two items": (
        ("lws", "kubernetes", "disaggregatedset"),
        pattern(r"( +- )--tensor-parallel-size=(\d+)", r"\g<1>--tensor-parallel-size\n\g<1>'\g<2>'"),
    ),
    "SGLang's flag in two items": (
        ("lws, sglang", "kubernetes, sglang"),
        pattern(r"( +- )--mem-fraction-static=([\d.]+)", r"\g<1>--mem-fraction-static\n\g<1>'\g<2>'", every=True),
    ),
    "more of the memory": (
        ("lws", "kubernetes", "disaggregatedset", "kserve", "script"),
        text("gpu-memory-utilization=0.9", "gpu-memory-utilization=0.92", count=-1),
    ),
    "flags that change nothing of the plan": (
        ("lws", "kubernetes", "disaggregatedset"),
        pattern("( +- )--max-model-len", r"\g<1>--trust-remote-code\n\g<1>--enable-prefix-caching\n\g<0>", every=True),
    ),
    "pull secrets": (_POD, _before_tolerations("imagePullSecrets: [{name: registry}]")),
    "service account and user": (
        _POD,
        _before_tolerations("serviceAccountName: serving\n\\g<1>securityContext: {fsGroup: 100, runAsNonRoot: true}"),
    ),
    "a token from a secret": (
        ("lws", "kubernetes", "disaggregatedset", "dynamo", "llm-d", "kserve"),
        pattern(
            "( +)- name: VLLM_NIXL_SIDE_CHANNEL_PORT",
            r"\g<1>- {name: HF_TOKEN, valueFrom: {secretKeyRef: {name: hub, key: token}}}\n\g<0>",
            every=True,
        ),
    ),
    "an end by a command": (
        _KUBERNETES,
        pattern(r"( +)sleep:\n +seconds: \d+\n", r"\g<1>exec: {command: [sleep, '10']}\n", every=True),
    ),
    "rollouts in steps": (
        ("lws", "lws, sglang"),
        text(
            "  startupPolicy:",
            "  rolloutStrategy:\n    type: RollingUpdate\n"
            "    rollingUpdateConfiguration: {maxUnavailable: 1, maxSurge: 0}\n  startupPolicy:",
        ),
    ),
    "a short history": (
        ("kubernetes", "kubernetes, sglang"),
        text("  replicas:", "  revisionHistoryLimit: 2\n  replicas:"),
    ),
    "pods apart": (
        ("kubernetes", "disaggregatedset", "lws, sglang"),
        _before_tolerations(
            "affinity: {podAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, "
            "podAffinityTerm: {topologyKey: kubernetes.io/hostname, labelSelector: {}}}]}}"
        ),
    ),
    "nodes preferred": (
        ("kubernetes", "disaggregatedset", "lws, sglang"),
        _before_tolerations(
            "affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference: "
            "{matchExpressions: [{key: zone, operator: In, values: [a]}]}}]}}"
        ),
    ),
    "as the server tells it": (("lws", "kubernetes", "disaggregatedset", "lws, sglang"), _live),
    "a list of objects": (
        ("lws", "kubernetes"),
        _beside(
            "more.yaml",
            "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Namespace, metadata: {name: prod}}\n",
        ),
    ),
    "objects of others": (
        ("lws", "kubernetes", "disaggregatedset", "dynamo", "kserve"),
        both(
            _beside("ns.yaml", "apiVersion: v1\nkind: Namespace\nmetadata: {name: prod}\n"),
            _beside(
                "net.yaml",
                "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: m}\nspec: {podSelector: {}}\n",
            ),
            _beside(
                "mon.yaml",
                "apiVersion: monitoring.coreos.com/v1\nkind: PodMonitor\nmetadata: {name: m}\nspec: {selector: {}}\n",
            ),
        ),
    ),
    "a priority class of others": (
        ("lws", "kubernetes", "disaggregatedset"),
        _beside(
            "class.yaml", "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: batch}\nvalue: 10\n"
        ),
    ),
    "a digest for a tag": (
        ("lws", "kubernetes", "llm-d"),
        pattern("(image: )vllm/vllm-openai:v0.18.0", rf"\g<1>vllm/vllm-openai@sha256:{'a' * 64}"),
    ),
}

MEDDLERS = {
    "pods with GPUs": (
        "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: other}\nspec: {template: {spec: {containers: "
        "[{name: a, image: 'a:v1', resources: {limits: {nvidia.com/gpu: 8}}}]}}}\n"
    ),
    "a job with AMD's GPUs": (
        "apiVersion: batch/v1\nkind: Job\nmetadata: {name: other}\nspec: {template: {spec: {containers: "
        "[{name: a, image: 'a:v1', resources: {requests: {amd.com/gpu: '1'}}}]}}}\n"
    ),
    "a claim of devices": (
        "apiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata: {name: other}\n"
        "spec: {devices: {requests: [{name: a, exactly: {deviceClassName: gpu.nvidia.com}}]}}\n"
    ),
    "an autoscaler": (
        "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: h}\n"
        "spec: {maxReplicas: 40, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: x}}\n"
    ),
    "a Deployment of another version": (
        "apiVersion: apps/v1beta1\nkind: Deployment\nmetadata: {name: other}\nspec: {replicas: 1}\n"
    ),
    "a misspelt kind": (
        "apiVersion: leaderworkerset.x-k8s.io/v1\nkind: LeaderWorkrSet\nmetadata: {name: other}\nspec: {}\n"
    ),
    "an object without a name": "apiVersion: v1\nkind: Namespace\nmetadata: {}\n",
    "a kind that the planner does not write": (
        "apiVersion: v1\nkind: Secret\nmetadata: {name: other, labels: {app.kubernetes.io/managed-by: planner}}\n"
    ),
}
"""Objects of unknown kinds that no folder of a plan may hold."""
