"""Routes, devices, models and the way of the KV cache: other than the plan's, or than the other files'."""

from plan_edits import PODS, SGLANG, TABLES, PlanMistake, init_container, pattern, text

_MOVED = r'("decode", "range_start": 0, "range_end": 2048, "service": "[a-z-]*h20-)0'
_SHARES = r'("decode", "range_start": 0.*?"share": )0\.5(.*?"share": )0\.5'

ROUTES = (
    PlanMistake(
        name="a range moved to another island",
        cases=TABLES,
        edit=pattern(_MOVED, r"\g<1>1"),
        told="prompts of 0 tokens must go to H20-0 (0.5), H20-1 (0.5) as in the plan, got H20-1 (1)",
        folder=False,
    ),
    PlanMistake(
        name="shares of two islands changed",
        cases=TABLES,
        edit=pattern(_SHARES, r"\g<1>0.75\g<2>0.25"),
        told="prompts of 0 tokens must go to H20-0 (0.5), H20-1 (0.5) as in the plan",
        folder=False,
    ),
    PlanMistake(
        name="more GPUs than the fleet has",
        cases=("lws", *TABLES),
        edit=pattern(r'"H20": \d+', '"H20": 800'),
        told="plan.inventory: must hold the plan's",
        folder=False,
    ),
    PlanMistake(
        name="a table of another plan",
        cases=("lws", *TABLES),
        edit=pattern(r'"plan": {"name": "[a-z-]+"', '"plan": {"name": "other"'),
        told="plan.name: must be",
    ),
)

DEVICES = (
    PlanMistake(
        name="GPUs of another vendor",
        cases=PODS,
        edit=text("nvidia.com/gpu: 8", "amd.com/gpu: 8", count=-1),
        told="must be nvidia.com/gpu, the resource of the island's GPUs",
        folder=False,
    ),
    PlanMistake(
        name="GPUs that no toleration lets in",
        cases=PODS,
        edit=text("nvidia.com/gpu: 8", "amd.com/gpu: 8", count=-1),
        told="must tolerate amd.com/gpu",
    ),
    PlanMistake(
        name="GPUs of two vendors",
        cases=("lws", "disaggregatedset", "lws, sglang", "dynamo"),
        edit=pattern("( +)nvidia.com/gpu: 8", r"\g<1>nvidia.com/gpu: 4\n\g<1>amd.com/gpu: 4"),
        told="amd.com/gpu",
    ),
    PlanMistake(
        name="processes of another vendor",
        cases=("script", "script, sglang"),
        edit=text("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", count=-1),
        told="must be nvidia.com/gpu, the resource of the island's GPUs",
        folder=False,
    ),
    PlanMistake(
        name="toleration left out",
        cases=PODS,
        edit=text("- key: nvidia.com/gpu\n", "- key: example.com/other\n"),
        told="must tolerate nvidia.com/gpu",
    ),
    PlanMistake(
        name="one GPU in sight",
        cases=("lws", "kubernetes", "disaggregatedset", "llm-d", "kserve"),
        edit=text("- name: VLLM_NIXL_SIDE_CHANNEL_PORT\n", "- name: CUDA_VISIBLE_DEVICES\n"),
        told="CUDA_VISIBLE_DEVICES must be left out",
    ),
    PlanMistake(
        name="init container with more GPUs than the engine",
        cases=("kubernetes", "disaggregatedset", "lws, sglang"),
        edit=pattern("( +)tolerations:\n", init_container("a/b:v1", 16)),
        told="initContainers.0.resources.limits: must ask for at most the pod's",
    ),
    PlanMistake(
        name="init container of no version",
        cases=("kubernetes", "disaggregatedset", "lws, sglang"),
        edit=pattern("( +)tolerations:\n", init_container("a/b:latest", 0)),
        told="initContainers.0.image: must name a fixed version",
    ),
)

_IMAGE = "(image[=: ] ?)vllm/vllm-openai:v0.18.0"

MODELS = (
    PlanMistake(
        name="other weights on one island",
        cases=("kubernetes", "script", *SGLANG),
        edit=text("deepseek-ai/DeepSeek-V3", "deepseek-ai/DeepSeek-V2", whole=True),
        told="the model must be deepseek-ai/DeepSeek-V3",
        folder=False,
    ),
    PlanMistake(
        name="other weights in all pods",
        cases=("kubernetes", "disaggregatedset", "dynamo", "llm-d", "kserve", "script", *SGLANG),
        edit=text("deepseek-ai/DeepSeek-V3", "deepseek-ai/DeepSeek-V2", count=-1),
        told="the model must be deepseek-ai/DeepSeek-V3, as in the plan and all pods, got deepseek-ai/DeepSeek-V2",
        folder=False,
    ),
    PlanMistake(
        name="other weights in the pods than in the release",
        cases=("llm-d",),
        edit=text("uri: hf://deepseek-ai/DeepSeek-V3", "uri: hf://deepseek-ai/DeepSeek-V2"),
        told="modelArtifacts.uri: the model must be deepseek-ai/DeepSeek-V3",
    ),
    PlanMistake(
        name="another model told in all files",
        cases=("kubernetes", "kserve", "llm-d", "script"),
        edit=pattern("""(planner/model"?[=: ]+)(['"]?)deepseek-v3['"]?""", r"\g<1>\g<2>llama\g<2>", every=True),
        told="planner/model: must be 'deepseek-v3' as in the plan",
        folder=False,
    ),
    PlanMistake(
        name="image of the other engine",
        cases=("kubernetes", "disaggregatedset", "llm-d", "script"),
        edit=pattern(_IMAGE, r"\g<1>lmsysorg/sglang:v0.5.18"),
        told="must be an image of vllm",
    ),
    PlanMistake(
        name="two versions of an engine",
        cases=("kubernetes", "disaggregatedset", "llm-d", "script"),
        edit=pattern(_IMAGE, r"\g<1>vllm/vllm-openai:v0.15.0"),
        told="engines of several versions",
    ),
    PlanMistake(
        name="a volume below the weights",
        cases=("llm-d",),
        edit=pattern("size: [0-9]+Gi", "size: 5Gi"),
        told="modelArtifacts.size: must hold the model's",
        folder=False,
    ),
    PlanMistake(
        name="a claim below the weights",
        cases=("lws",),
        edit=pattern("storage: [0-9]+Gi", "storage: 5Gi"),
        told="spec.resources.requests.storage: must hold the model's",
        folder=False,
    ),
    PlanMistake(
        name="side channel of the host",
        cases=("kubernetes", "disaggregatedset", "llm-d", "kserve"),
        edit=text("status.podIP", "status.hostIP"),
        told="VLLM_NIXL_SIDE_CHANNEL_HOST must be the pod's own address",
    ),
    PlanMistake(
        name="side channel of nobody",
        cases=("kubernetes", "disaggregatedset", "llm-d", "kserve", "script"),
        edit=text("VLLM_NIXL_SIDE_CHANNEL_HOST", "VLLM_NIXL_SIDE_CHANNEL_HOSTS"),
        told="VLLM_NIXL_SIDE_CHANNEL_HOST must be the pod's own address",
    ),
)
