"""Edits of exports of every target and router: sixty that break them, with the place that has to be named, and twenty
that are anybody's right.

A row: file, what becomes what (the first time that it stands there), and for a wrong one what its fault says first:
file, object and field.
"""

from collections.abc import Mapping

from planner.export import ExportOptions

Exported = tuple[str, str, str]
"""Target, engine, router (empty: the target's own)."""

OPTIONS: Mapping[Exported, ExportOptions] = {
    ("kubernetes", "sglang", "none"): ExportOptions(autoscaling="hpa", monitoring=True, model_volume="weights")
}

_ENGINE = "spec.leaderWorkerTemplate.workerTemplate.spec.containers[engine]"
_SET, _POD = "LeaderWorkerSet single-nodes-h200-0, ", "Deployment single-nodes-h200-0, spec.template.spec"
_ROUTER = "Deployment single-nodes-router, spec.template.spec.containers[router]"
_SPLIT = "Deployment single-nodes-router-0-split, spec.template.spec.containers[router].args."
_CONFIG = "router.yaml, ConfigMap single-nodes-router, data.haproxy.cfg, line "
_PICKER = "llm-d-router.yaml, ConfigMap single-nodes-router, data.values.yaml.router."
_PLUGINS = f"{_PICKER}epp.pluginsCustomConfig.planner.yaml."
_GRAPH = "00-frontend.yaml, DynamoGraphDeployment single-nodes, spec.components"
_VALUES = "spec.template.containers[main].env[VLLM_ADDITIONAL_ARGS].value."
_ROUTES = "routing.yaml, ConfigMap single-nodes-routing, data.routing.json."

WRONG: Mapping[Exported, tuple[tuple[str, str, str, str], ...]] = {
    ("lws", "vllm", ""): (
        ("01-h200-0.yaml", "parallel-size=8", "parallel-size=4", f"{_SET}{_ENGINE}.args.--tensor-parallel-size"),
        ("01-h200-0.yaml", "memory: 512Gi", "memory: 51Gi", f"{_SET}{_ENGINE}.resources.limits.memory"),
        ("01-h200-0.yaml", "nvidia.com/gpu: 8", "nvidia.com/gpu: 16", f"{_SET}{_ENGINE}.resources.limits.nvidia"),
        ("01-h200-0.yaml", "failureThreshold: 330", "failureThreshold: 33", f"{_SET}{_ENGINE}.startupProbe.failure"),
        ("01-h200-0.yaml", "seconds: 16", "seconds: 1", f"{_SET}{_ENGINE}.lifecycle.preStop.sleep.seconds"),
        ("01-h200-0.yaml", "Seconds: 46", "Seconds: 5", f"{_SET}spec.leaderWorkerTemplate.workerTemplate.spec.term"),
        ("01-h200-0.yaml", "worker-index: '0'", "worker-index: '1'", "Service single-nodes-h200-0-leader, spec.sel"),
        ("router.yaml", "timeout server 300s", "timeout server 10s", f'{_CONFIG}"timeout server 300s"'),
        ("router.yaml", "balance roundrobin", "balance source", f'{_CONFIG}"balance roundrobin"'),
        ("router.yaml", "maxconn 208", "maxconn 2", f'{_CONFIG}"server single-nodes-router-0-split'),
        ("router.yaml", "    retries 3\n", "", f'{_CONFIG}"retries 3"'),
        ("router.yaml", "- power_of_two", "- random", f"{_SPLIT}--policy"),
        ("router.yaml", "h20-0-1.single-nodes", "h20-0-2.single-nodes", f"{_SPLIT}--decode"),
        ("router.yaml", "minAvailable: 1", "minAvailable: 0", "PodDisruptionBudget single-nodes-router, spec.minAv"),
        ("routing.yaml", '"share": 0.5', '"share": 0.7', f"{_ROUTES}routes[0].share"),
        ("disruption-budgets.yaml", "AlwaysAllow", "IfHealthyBudget", "PodDisruptionBudget single-nodes-h200-0, spec."),
    ),
    ("lws", "vllm", "vllm"): (
        ("router.yaml", "- power_of_two", "- random", f"{_ROUTER}.args.--policy"),
        ("router.yaml", "- '300'", "- '3'", f"{_ROUTER}.args.--request-timeout-secs"),
        ("router.yaml", "- --vllm-pd-disaggregation\n", "- --verbose\n", f"{_ROUTER}.args.--v"),
    ),
    ("lws", "sglang", "model-gateway"): (
        ("router.yaml", "- power_of_two", "- round_robin", f"{_ROUTER}.args.--policy"),
        ("router.yaml", "gateway:v0.3.2", "gateway:v0.1.0", f"{_ROUTER}.image"),
        ("router.yaml", "replicas: 2", "replicas: 1", "Deployment single-nodes-router, spec.replicas"),
    ),
    ("lws", "sglang", "sglang"): (
        ("sglang-router.yaml", '"rank": 10', '"rank": 1', "data.sglang-buckets.json.buckets[prefill-0].rank"),
        ("sglang-router.yaml", '"stage": "decode"', '"stage": "prefill"', "buckets[decode-0].stage"),
        ("sglang-router.yaml", '"ttft_slo_policy": "disabled"', '"ttft_slo_policy": "strict"', "json.ttft_slo_policy"),
    ),
    ("lws", "vllm", "aibrix"): (
        ("aibrix.yaml", "BUCKETING: 'true'", "BUCKETING: 'false'", "data.AIBRIX_PROMPT_LENGTH_BUCKETING"),
        ("aibrix.yaml", "TIMEOUT: '30'", "TIMEOUT: '3'", "data.AIBRIX_PREFILL_REQUEST_TIMEOUT"),
        ("01-h200-0.yaml", 'BucketMaxLength": 6094', 'BucketMaxLength": 94', "promptLenBucketMaxLength"),
        ("01-h200-0.yaml", "aibrix.ai/port: '8000'", "aibrix.ai/port: '80'", "metadata.labels.model.aibrix.ai/port"),
    ),
    ("kubernetes", "vllm", ""): (
        ("01-h200-0.yaml", "replicas: 2", "replicas: 3", "Deployment single-nodes-h200-0, spec.replicas"),
        ("01-h200-0.yaml", "NVIDIA-H200", "NVIDIA-H20", f"{_POD}.nodeSelector.nvidia.com/gpu.product"),
        ("01-h200-0.yaml", "type: RuntimeDefault", "type: Unconfined", f"{_POD}.containers[engine].securityContext"),
        ("router.yaml", "cpu: 2", "cpu: 1", f"{_ROUTER}.resources.limits.cpu"),
        ("router.yaml", "port: 8080\n    targetPort", "port: 80\n    targetPort", "Service single-nodes-router, spec."),
    ),
    ("kubernetes", "sglang", "none"): (
        ("autoscaling.yaml", "maxReplicas: ", "maxReplicas: 1", "HorizontalPodAutoscaler single-nodes-h200-0, spec."),
        ("01-h200-0.yaml", "mountPath: /models", "mountPath: /model", "volumeMounts[model].mountPath"),
        ("01-h200-0.yaml", "replicas: 2", "replicas: 77", "Deployment single-nodes-h200-0, spec.replicas"),
    ),
    ("disaggregatedset", "vllm", ""): (
        ("disaggregatedset.yaml", "replicas: 3", "replicas: 4", "DisaggregatedSet single-nodes, spec.roles[h20-0].sp"),
        ("services.yaml", "role: h200-0", "role: h20-0", "Service single-nodes-h200-0-leader, spec.selector.disagg"),
    ),
    ("llm-d", "vllm", ""): (
        ("llm-d-router.yaml", "token-load-scorer", "token-lode-scorer", f"{_PLUGINS}plugins"),
        ("llm-d-router.yaml", "enableFiltering: true", "enableFiltering: false", f"{_PLUGINS}plugins"),
        ("llm-d-router.yaml", "weight: 2", "weight: 9", f"{_PLUGINS}schedulingProfiles[decode].plugins"),
        ("llm-d-router.yaml", "FailClosed", "FailOpen", f"{_PICKER}inferencePool.failureMode"),
        ("releases.yaml", "version: v0.4.12", "version: v0.3.0", "releases.yaml, releases[single-nodes-01].version"),
        ("01.values.yaml", "targetPort: 8200", "targetPort: 8000", "01.values.yaml, routing.proxy.targetPort"),
        ("01.values.yaml", "length-range: 0-6094", "length-range: 0-60940", "01.values.yaml, modelArtifacts.labels."),
        ("routing.json", '"port": 8000', '"port": 80', "routing.json, services[0].port"),
    ),
    ("kserve", "vllm", ""): (
        ("01.yaml", "max-num-seqs=16", "max-num-seqs=160", f"{_VALUES}--max-num-seqs"),
        ("01.yaml", "    expert: true\n", "    expert: false\n", "spec.parallelism.expert"),
        ("llm-d-router.yaml", "max-score-picker\n", "random-picker\n", f"{_PLUGINS}plugins"),
    ),
    ("kueue", "vllm", ""): (
        ("queues.yaml", "nominalQuota: 16", "nominalQuota: 61", "ClusterQueue single-nodes, spec.resourceGroups[0].fl"),
        ("flavors.yaml", "product: NVIDIA-H20", "product: H20", "ResourceFlavor single-nodes-h20, spec.nodeLabels."),
    ),
    ("script", "vllm", ""): (
        ("haproxy.cfg", "timeout server 300s", "timeout server 10s", 'haproxy.cfg, line "timeout server 300s"'),
        ("router-0-split.sh", "  power_of_two", "  random", 'router-0-split.sh, line "power_of_two"'),
        ("02-h20-0.sh", "--max-num-seqs=16", "--max-num-seqs=64", '02-h20-0.sh, line "--max-num-seqs=16"'),
        ("02-h20-0.sh", 'exec "$', 'echo "$', '02-h20-0.sh, line "exec '),
    ),
    ("dynamo", "vllm", ""): (
        ("00-frontend.yaml", "- kv\n", "- random\n", f"{_GRAPH}[frontend].podTemplate.spec.containers[main].args.--ro"),
        ("00-frontend.yaml", "type: prefill", "type: decode", f"{_GRAPH}[h200-0].type"),
        ("00-frontend.yaml", "sharedMemorySize: 16Gi", "sharedMemorySize: 1Mi", f"{_GRAPH}[h200-0].sharedMemorySize"),
        (
            "00-frontend.yaml",
            "SUFFIX\n            value: ''",
            "SUFFIX\n            value: a",
            "[DYN_NAMESPACE_WORKER_SUF",
        ),
    ),
}

_AFFINITY = (
    "affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: "
    "[{weight: 1, preference: {matchExpressions: [{key: zone, operator: In, values: [a]}]}}]}}"
)
_DIGEST = f"vllm/vllm-openai@sha256:{'a' * 64}"
HARMLESS: Mapping[Exported, tuple[tuple[str, str, str], ...]] = {
    ("lws", "vllm", ""): (
        ("01-h200-0.yaml", "apiVersion", "# ours since March\napiVersion"),
        ("01-h200-0.yaml", "memory: 512Gi", "memory: 1Ti"),
        ("01-h200-0.yaml", "cpu: 64", "cpu: 64000m"),
        ("01-h200-0.yaml", "Seconds: 46", "Seconds: 460"),
        ("01-h200-0.yaml", "failureThreshold: 330", "failureThreshold: 660"),
        ("01-h200-0.yaml", "  labels:\n", "  labels:\n    example.com/team: serving\n"),
        ("01-h200-0.yaml", "  annotations:\n", "  annotations:\n    example.com/owner: us\n"),
        ("01-h200-0.yaml", "vllm/vllm-openai:v0.18.0", _DIGEST),
        ("01-h200-0.yaml", "        tolerations:", f"        {_AFFINITY}\n        tolerations:"),
        ("01-h200-0.yaml", "          env:\n", "          env:\n          - {name: NCCL_DEBUG, value: INFO}\n"),
        ("router.yaml", "    timeout server 300s\n", "    # patient\n      timeout server 300s\n"),
        ("routing.yaml", '"share": 0.5', '"share":   0.50'),
    ),
    ("kubernetes", "sglang", "none"): (
        ("01-h200-0.yaml", "  replicas: 2\n", ""),
        ("01-h200-0.yaml", "  replicas:", "  revisionHistoryLimit: 3\n  replicas:"),
        ("01-h200-0.yaml", "      tolerations:", "      imagePullSecrets: [{name: ours}]\n      tolerations:"),
    ),
    ("script", "vllm", ""): (
        ("02-h20-0.sh", "set -euo pipefail\n", "\n# ours\nset -euo pipefail\n"),
        ("routing.json", '"services": [\n', '"services":\n  [ '),
    ),
    ("kueue", "vllm", ""): (("queues.yaml", "  labels:\n", "  labels:\n    example.com/cost-centre: '7'\n"),),
    ("llm-d", "vllm", ""): (
        ("llm-d-router.yaml", "    router:\n      modelServers:", "    # ours\n    router:\n      modelServers:"),
        ("01.values.yaml", "cpu: 64", "cpu: 96"),
    ),
}
