"""Edits that people make by hand in exported files, by kind: what ought to happen, and which judges of other people say
so beside our own check.

`judges`: those that have to refuse a wrong edit (`tools.judges`, or `parsers`: the engine's own, of the version that
the file is for); where it is empty nobody outside can know, as the file itself is sound and only the plan is not met.
Routers' files have their edits in ROUTER_EDITS.
"""

from collections.abc import Iterator
from dataclasses import dataclass

PARSERS = "parsers"


@dataclass(frozen=True, slots=True, kw_only=True)
class HandEdit:
    """In `file` of the export (target, engine, plan) `old` becomes `new`: `at` is all, first or last."""

    kind: str
    export: tuple[str, str, str]
    file: str
    old: str
    new: str
    at: str = "all"
    judges: tuple[str, ...] = ()
    rejected: bool = True

    def apply(self, files: dict[str, str]) -> dict[str, str]:
        """The files with the edit made."""
        text = files[self.file]
        assert self.old in text, f"{self.old!r} is not in {self.file}"
        if self.at == "last":
            head, _, tail = text.rpartition(self.old)
            return {**files, self.file: f"{head}{self.new}{tail}"}
        return {**files, self.file: text.replace(self.old, self.new, 1 if self.at == "first" else -1)}


_PORT = "          - name: VLLM_NIXL_SIDE_CHANNEL_PORT\n            value: '5600'\n"  # vLLM's own default
_RANKS = "- --data-parallel-multi-port-external-lb"
_HOST = (
    "          - name: VLLM_NIXL_SIDE_CHANNEL_HOST\n            valueFrom:\n              fieldRef:\n"
    "                fieldPath: status.podIP\n"
)
LWS = (("lws", "vllm", "several nodes"), "02-h20-0.yaml")
PREFILL = (("lws", "vllm", "several nodes"), "01-h200-0.yaml")
SGLANG = (("lws", "sglang", "several nodes"), "02-h20-0.yaml")
SETS = (("disaggregatedset", "vllm", "several nodes"), "disaggregatedset.yaml")
PODS = (("kubernetes", "vllm", "single nodes"), "02-h20-0.yaml")
LLM_D = (("llm-d", "vllm", "several nodes"), "01.values.yaml")
KSERVE = (("kserve", "vllm", "single nodes"), "01.yaml")
DYNAMO = (("dynamo", "vllm", "two pools"), "01-prefill-0.yaml")
DYNAMO_SGLANG = (("dynamo", "sglang", "single nodes"), "00-frontend.yaml")
SCRIPT = (("script", "vllm", "several nodes"), "02-h20-0.sh")
QUEUES = (("kueue", "vllm", "single nodes"), "queues.yaml")
ROUTES = (("lws", "vllm", "several nodes"), "routing.yaml")
GRID = (("dynamo", "vllm", "two pools"), "00-frontend.yaml")


def edits(place: tuple[tuple[str, str, str], str], *rows: tuple[str, ...], rejected: bool = True) -> Iterator[HandEdit]:
    """Rows of one file: kind, what becomes what, the judges (with commas), and which of several places."""
    for kind, old, new, judges, *at in rows:
        names = tuple(filter(None, judges.split(", ")))
        where = {"at": at[0]} if at else {}
        yield HandEdit(
            kind=kind, export=place[0], file=place[1], old=old, new=new, judges=names, rejected=rejected, **where
        )


WRONG_EDITS = (
    *edits(
        LWS,
        ("unknown flag", "--enable-dbo", "--enable-dbo\n          - --no-such-flag", "parsers"),
        ("misspelt flag", "--max-num-seqs=64", "--max-num-sequences=64", "parsers"),
        ("flag cut too short", "--max-num-seqs=64", "--max-num=64", "parsers"),
        ("value's type", "--port=8000", "--port=http", "parsers"),
        ("value's type, number", "utilization=0.9", "utilization=most", "parsers"),
        ("value out of range", "utilization=0.9", "utilization=90", "parsers"),
        ("value that is none of the choices", "=deepep_low_latency", "=deepep_low", "parsers"),
        ("value that is no JSON", '"kv_role": "kv_consumer"', '"kv_role" "kv_consumer"', "parsers"),
        ("KV connector role unknown", "kv_consumer", "kv_reader", "parsers"),
        ("KV connector role of the other phase", "kv_consumer", "kv_producer", ""),
        ("KV cache type", "--kv-cache-dtype=fp8", "--kv-cache-dtype=fp4", "parsers"),
        ("context beyond the model", "--max-model-len=6095", "--max-model-len=1000000", "parsers"),
        ("context below the prompts", "--max-model-len=6095", "--max-model-len=4000", ""),
        ("tensor parallelism beyond the pod", "--tensor-parallel-size=1", "--tensor-parallel-size=16", "parsers"),
        ("tensor parallelism that splits no heads", "--tensor-parallel-size=1", "--tensor-parallel-size=7", "parsers"),
        ("data parallelism", "--data-parallel-size=32", "--data-parallel-size=16", ""),
        ("ranks of a pod", "--data-parallel-size-local=8", "--data-parallel-size-local=4", ""),
        ("start rank", "- '8'\n", "- '4'\n", ""),
        ("duplicate flag", "--max-num-seqs=64", "--max-num-seqs=128\n          - --max-num-seqs=64", ""),
        ("front ends of a pod of ranks", _RANKS, f"{_RANKS}\n          - --api-server-count=8", "parsers"),
        ("ranks behind one port", f"          {_RANKS}\n", "", ""),
        ("more ranks in a pod than in a copy", "data-parallel-size=32", "data-parallel-size=4", "parsers"),
        ("rendezvous port of one pod", "rpc-port=13345", "rpc-port=13346", "", "first"),
        ("rendezvous port out of range", "rpc-port=13345", "rpc-port=70000", ""),
        ("batch", "--max-num-seqs=64", "--max-num-seqs=256", ""),
        ("wrong model", "deepseek-ai/DeepSeek-V3", "deepseek-ai/DeepSeek-V2", "", "first"),
        ("image of another version", "vllm-openai:v0.33.0", "vllm-openai:v0.17.0", ""),
        ("image of another version in one pod", "vllm-openai:v0.33.0", "vllm-openai:v0.31.0", "", "first"),
        ("image of another engine", "vllm/vllm-openai:v0.33.0", "lmsysorg/sglang:v0.5.23", ""),
        ("image without a version", "vllm-openai:v0.33.0", "vllm-openai:latest", ""),
        ("probe path", "path: /health", "path: /healthy", ""),
        ("probe port", "port: health\n", "port: https\n", ""),
        ("shared memory's unit", "sizeLimit: 16Gi", "sizeLimit: 16GB", ""),
        ("shared memory beyond the pod's", "sizeLimit: 16Gi", "sizeLimit: 600Gi", ""),
        ("GPU limit", "nvidia.com/gpu: 8", "nvidia.com/gpu: 4", ""),
        ("GPU limit's type", "nvidia.com/gpu: 8", "nvidia.com/gpu: [8]", "crds"),
        ("node selector", "nvidia.com/gpu.product: NVIDIA-H20", "nvidia.com/gpu.product: NVIDIA-H200", ""),
        ("missing variable", _HOST, "", "", "first"),
        ("replicas", "replicas: 1\n", "replicas: 2\n", ""),
        ("replicas' type", "replicas: 1\n", "replicas: one\n", "crds"),
        ("pods of a copy", "size: 4", "size: 5", ""),
        ("value that is none of the choices, of an object", "LeaderCreated", "LeaderStarted", "crds"),
        ("misspelt key", "startupPolicy:", "startPolicy:", "crds"),
        ("name of another object", "  name: mixed-fleet-h20-0\n", "  name: mixed-fleet-h20-1\n", "kustomize"),
    ),
    *edits(
        SGLANG,
        ("unknown flag", "--enable-dp-lm-head", "--enable-dp-lm-head\n          - --no-such-flag", "parsers"),
        ("misspelt flag", "--context-length", "--context-lenght", "parsers"),
        ("flag of the other engine", "--enable-two-batch-overlap", "--enable-dbo", "parsers"),
        ("wrong rank", "--node-rank=$(LWS_WORKER_INDEX)", "--node-rank=0", ""),
        ("rendezvous port of one pod", "ADDRESS):5000", "ADDRESS):5001", "", "first"),
        ("value that is none of the choices", "--moe-a2a-backend=deepep", "--moe-a2a-backend=deepest", "parsers"),
        ("attention groups", "--dp-size=32", "--dp-size=5", "parsers"),
        ("experts' ranks", "--ep-size=32", "--ep-size=16", ""),
        ("dense layers' ranks", "--moe-dense-tp-size=1", "--moe-dense-tp-size=2", "parsers"),
        ("nodes", "--nnodes=4", "--nnodes=3", "parsers"),
        ("phase", "--disaggregation-mode=decode", "--disaggregation-mode=prefill", ""),
    ),
    *edits(
        PODS,
        ("replicas' type", "replicas: 3", "replicas: three", "kubernetes"),
        ("Service's selector", "planner/island: h20-0", "planner/island: h20-7", "", "last"),
        ("tensor parallelism beyond the pod", "--tensor-parallel-size=4", "--tensor-parallel-size=16", "parsers"),
    ),
    *edits(SETS, ("one role without copies", "replicas: 2\n", "replicas: 0\n", "cel")),
    *edits(
        LLM_D,
        ("unknown flag", "- --enable-dbo\n", "- --no-such-flag\n", "parsers"),
        ("word too many for the leader", "- --enable-dbo\n", "- --enable-dbo\n    - --enable-dbo\n", ""),
        ("tracing off", "  enabled: true\n  sampling", "  enabled: false\n  sampling", "helm"),
        ("value's type", "multinode: true", "multinode: 'yes'", "helm, crds"),
        ("chart's degrees", "    dataLocal: 8\n", "    dataLocal: 4\n", ""),
    ),
    *edits(
        KSERVE,
        ("unknown flag", "--enable-dbo", "--enable-dbo --no-such-flag", "parsers"),
        ("bounds beside replicas", "  replicas: 3\n", "  replicas: 3\n  scaling: {maxReplicas: 4}\n", "cel", "first"),
    ),
    *edits(
        DYNAMO,
        ("unknown flag", "- --enable-dbo\n", "- --enable-dbo\n          - --no-such-flag\n", "parsers"),
        ("flag of another version", "- --enable-dbo\n", "- --enable-dbo\n          - --grpc\n", "parsers"),
        ("value's type", "- '16384'", "- many", "parsers"),
        ("replicas' type", "replicas: 2\n", "replicas: two\n", "crds"),
        ("missing KV connector", "--kv-transfer-config", "--kv-events-config", "parsers"),
    ),
    *edits(
        DYNAMO_SGLANG,
        ("flag of another version", "- --enable-two-batch-overlap\n", "- --enable-hisparse-x\n", "parsers"),
        ("value's type", "- '6095'", "- many", "parsers"),
    ),
    *edits(
        SCRIPT,
        ("unknown flag", "      --enable-dbo\n", "      --enable-dbo\n      --no-such-flag\n", "parsers"),
        ("broken script", "fi\ncopy=", "copy=", "shellcheck"),
        ("quotes lost", '"${0##*/}"', "${0##*/}", "shellcheck"),
    ),
    *edits(
        QUEUES,
        ("quota", "nominalQuota: 32", "nominalQuota: 16", ""),
        ("resource without a quota", "    - memory\n    fl", "    - memory\n    - nvidia.com/mig\n    fl", "cel"),
        ("quota's type", "nominalQuota: 32", "nominalQuota: [32]", "crds"),
    ),
    *edits(
        ROUTES,
        (
            "ranges swapped",
            '"prefill", "range_start": 0, "range_end": 2048',
            '"prefill", "range_start": 2048, "range_end": 6095',
            "",
        ),
        ("shares", '"share": 0.5', '"share": 0.75', "", "first"),
        ("port", '"phase": "decode", "port": 8000', '"phase": "decode", "port": 9000', ""),
    ),
    *edits(
        GRID,
        ("pools swapped", '"prefill_pool_mapping": [[0], [1]]', '"prefill_pool_mapping": [[1], [0]]', ""),
        ("grid's size", '"isl_resolution": 2', '"isl_resolution": 3', "global_router"),
        (
            "pool that there is none of",
            '"prefill_pool_mapping": [[0], [1]]',
            '"prefill_pool_mapping": [[0], [2]]',
            "global_router",
        ),
        ("one pool too many", '"num_decode_pools": 1', '"num_decode_pools": 2', "global_router"),
    ),
)

HARMLESS_EDITS = (
    *edits(
        LWS,
        ("comment", "spec:\n  replicas", "# ours since March\nspec:\n  replicas", ""),
        (
            "order of labels",
            "    planner/phase: decode\n    planner/gpu: H20\n",
            "    planner/gpu: H20\n    planner/phase: decode\n",
            "",
        ),
        ("annotation of theirs", "  annotations:\n", "  annotations:\n    example.com/replicas: '3'\n", "", "first"),
        ("label of theirs", "  labels:\n", "  labels:\n    example.com/team: serving\n", "", "first"),
        (
            "variable of theirs",
            "          env:\n",
            "          env:\n          - name: NCCL_DEBUG\n            value: INFO\n",
            "",
        ),
        ("quotes", "size: 4\n", "'size': 4\n", ""),
        ("probe on another route", "path: /health", "path: /v1/models", ""),
        ("rendezvous port of all pods", "rpc-port=13345", "rpc-port=23456", ""),
        ("spaces in JSON", '{"kv_connector": "NixlConnector", ', '{"kv_connector":"NixlConnector",', ""),
        ("variable at its default", _PORT, "", ""),
        ("smaller shared memory", "sizeLimit: 16Gi", "sizeLimit: 8Gi", ""),
        rejected=False,
    ),
    *edits(
        SGLANG,
        ("flag of the front end", "- --host=0.0.0.0", "- --host=0.0.0.0\n          - --enable-metrics", ""),
        rejected=False,
    ),
    *edits(
        QUEUES, ("label of theirs", "  labels:\n", "  labels:\n    example.com/team: serving\n", ""), rejected=False
    ),
    *edits(SCRIPT, ("comment", "set -euo pipefail\n", "set -euo pipefail\n# ours since March\n", ""), rejected=False),
)

_STARTUP = (
    "          startupProbe:\n            httpGet:\n              path: /health\n              port: health\n"
    "            periodSeconds: 10\n            timeoutSeconds: 5\n            failureThreshold: 330\n"
)
OPERATING_EDITS = (
    *edits(
        PREFILL,
        ("start given up too early", "failureThreshold: 330", "failureThreshold: 3", ""),
        ("liveness without startup", _STARTUP, "", ""),
        ("hook beyond the grace", "seconds: 16\n", "seconds: 1600\n", ""),
    ),
    *edits(
        (LWS[0], "disruption-budgets.yaml"),
        ("budget of nobody", "planner/island: h200-0", "planner/island: h200-9", ""),
        ("budget too wide", "maxUnavailable: 1", "maxUnavailable: 9", "", "first"),
    ),
)
"""Edits of what it takes to operate pods."""

_WORKER = (
    '        server mixed-fleet-h200-0-5 "mixed-fleet-h200-0-1.mixed-fleet-h200-0.${NAMESPACE}.svc.cluster.local:8001" '
    "weight 256 maxconn 4 check\n"
)
ROUTER_EDITS = (
    *edits(
        (LWS[0], "router.yaml"),
        ("dropped worker", _WORKER, "", ""),
        ("worker twice", _WORKER, 2 * _WORKER, ""),
        ("worker of another phase", '"mixed-fleet-h20-1-0.mixed-fleet-h20-1.', '"mixed-fleet-h200-0.', ""),
        ("phases swapped", "http://mixed-fleet-router:10101", "http://mixed-fleet-router:10100", ""),
        ("weight", "weight 256", "weight 25", ""),
        ("server of nobody", "fleet-router-0-split.${NAMESPACE}", "fleet-router-9-split.${NAMESPACE}", ""),
        ("router's image without a version", "haproxy:2.6.12", "haproxy:latest", ""),
    ),
    *edits(
        (LLM_D[0], "llm-d-router.yaml"),
        ("ports of a pool", "        - number: 8001\n", "", ""),
    ),
    *edits(LLM_D, ("range cut short", "length-range: 0-6094", "length-range: 0-2047", "", "first")),
)
"""Edits of routers' files and of the labels that they go by."""
