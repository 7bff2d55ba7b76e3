"""Flags of engines beside degrees and batch: memory, budgets, KV transfer, experts, and words that take others back."""

from plan_edits import SGLANG, VLLM, PlanMistake, flag, pattern, text

_WITHOUT_DYNAMO = tuple(case for case in VLLM if case != "dynamo")
_LISTS = ("lws", "kubernetes", "disaggregatedset", "llm-d")

FLAGS = (
    PlanMistake(
        name="half the memory",
        cases=_WITHOUT_DYNAMO,
        edit=flag("gpu-memory-utilization", "--gpu-memory-utilization=0.5"),
        told="--gpu-memory-utilization must be at least 0.9",
        folder=False,
    ),
    PlanMistake(
        name="more memory than there is",
        cases=_WITHOUT_DYNAMO,
        edit=flag("gpu-memory-utilization", "--gpu-memory-utilization=1.9"),
        told="--gpu-memory-utilization must lie above 0 and below 1",
    ),
    PlanMistake(
        name="no share of the memory",
        cases=_WITHOUT_DYNAMO,
        edit=flag("gpu-memory-utilization", None),
        told="--gpu-memory-utilization must be there",
    ),
    PlanMistake(
        name="half the memory in words",
        cases=("dynamo",),
        edit=text("- '0.9'", "- '0.5'"),
        told="--gpu-memory-utilization must be at least 0.9",
        folder=False,
    ),
    PlanMistake(
        name="a step smaller than the batch",
        cases=(*_LISTS[:3], "script"),
        edit=flag("max-num-batched-tokens", "--max-num-batched-tokens=1"),
        told="--max-num-batched-tokens must be at least --max-num-seqs",
    ),
    PlanMistake(
        name="a shorter step",
        cases=_WITHOUT_DYNAMO,
        edit=flag("max-num-batched-tokens", "--max-num-batched-tokens=100"),
        told="--max-num-batched-tokens must be at least",
        folder=False,
    ),
    PlanMistake(
        name="more context than the model has",
        cases=_WITHOUT_DYNAMO,
        edit=flag("max-model-len", "--max-model-len=1000000"),
        told="--max-model-len must be at most the model's 163840 tokens",
        folder=False,
    ),
    PlanMistake(
        name="KV cache in another form on one side",
        cases=("lws", "kubernetes", "script"),
        edit=flag("kv-cache-dtype", "--kv-cache-dtype=auto", every=True),
        told="--kv-cache-dtype must be ",
    ),
    PlanMistake(
        name="KV cache in another form on one side of a service",
        cases=("kserve",),
        edit=flag("kv-cache-dtype", "--kv-cache-dtype=auto"),
        told="--kv-cache-dtype must be ",
    ),
    PlanMistake(
        name="KV cache in another form on both sides",
        cases=("lws",),
        edit=text("--kv-cache-dtype=fp8", "--seed=0", count=-1),
        told="--kv-cache-dtype must be fp8 as the plan needs",
        folder=False,
    ),
    PlanMistake(
        name="another connector on one side",
        cases=VLLM,
        edit=text("NixlConnector", "P2pNcclConnector"),
        told="--kv-transfer-config must be the same on both sides",
    ),
    PlanMistake(
        name="two connectors",
        cases=("lws", "kubernetes", "disaggregatedset", "dynamo"),
        edit=pattern(r"( +- )--max-model-len", r"\g<1>--kv-transfer-config\n\g<1>'{}'\n\g<0>"),
        told="--kv-transfer-config must be given once",
    ),
    PlanMistake(
        name="two memory shares",
        cases=_LISTS[:3],
        edit=pattern("( +- )--max-model-len", r"\g<1>--gpu-memory-utilization=0.9\n\g<0>"),
        told="--gpu-memory-utilization must be given once",
    ),
    PlanMistake(
        name="experts together after all",
        cases=("lws", "disaggregatedset"),
        edit=pattern("( +- )--enable-expert-parallel\n", r"\g<0>\g<1>--no-enable-expert-parallel\n"),
        told="--no-enable-expert-parallel must be left out",
    ),
    PlanMistake(
        name="a switch with a value",
        cases=("lws", "disaggregatedset", "llm-d", "script"),
        edit=flag("enable-expert-parallel", "--enable-expert-parallel=false"),
        told="--enable-expert-parallel must be given without a value",
    ),
    PlanMistake(
        name="flags from a file",
        cases=_WITHOUT_DYNAMO,
        edit=flag("kv-cache-dtype", "--config=/etc/engine.yaml"),
        told="--config must be left out",
    ),
    PlanMistake(
        name="flag cut short",
        cases=_WITHOUT_DYNAMO,
        edit=flag("gpu-memory-utilization", "--gpu-memory-util=0.5"),
        told="must be given by the flags that the planner writes, in full",
    ),
    PlanMistake(
        name="nobody but the pod reaches vLLM",
        cases=_WITHOUT_DYNAMO,
        edit=flag("kv-cache-dtype", "--host=127.0.0.1"),
        told="--host must be an address that others reach",
    ),
    PlanMistake(
        name="experts exchanged by nobody knows what",
        cases=("lws", "disaggregatedset", "llm-d", "kserve", "script"),
        edit=flag("all2all-backend", "--all2all-backend=deepsea"),
        told="--all2all-backend must be one of",
    ),
    PlanMistake(
        name="half the static memory",
        cases=SGLANG,
        edit=flag("mem-fraction-static", "--mem-fraction-static=0.3"),
        told="--mem-fraction-static must be at least 0.8",
        folder=False,
    ),
    PlanMistake(
        name="all the static memory",
        cases=SGLANG,
        edit=flag("mem-fraction-static", "--mem-fraction-static=1.0"),
        told="--mem-fraction-static must lie above 0 and below 1",
    ),
    PlanMistake(
        name="shorter chunks",
        cases=SGLANG,
        edit=flag("chunked-prefill-size", "--chunked-prefill-size=512"),
        told="--chunked-prefill-size must be at least",
        folder=False,
    ),
    PlanMistake(
        name="a cap on the KV cache",
        cases=SGLANG,
        edit=flag("kv-cache-dtype", "--max-total-tokens=1000"),
        told="--max-total-tokens must be left out",
    ),
    PlanMistake(
        name="another backend on one side",
        cases=SGLANG,
        edit=flag("disaggregation-transfer-backend", "--disaggregation-transfer-backend=mooncake"),
        told="--disaggregation-transfer-backend must be the same on both sides",
    ),
    PlanMistake(
        name="nobody but the pod reaches SGLang",
        cases=SGLANG,
        edit=flag("host", None),
        told="--host must be there",
    ),
    PlanMistake(
        name="SGLang on the loopback",
        cases=SGLANG,
        edit=flag("host", "--host=127.0.0.1"),
        told="--host must be an address",
    ),
    PlanMistake(
        name="experts exchanged by a typo",
        cases=("lws, sglang", "script, sglang"),
        edit=flag("moe-a2a-backend", "--moe-a2a-backend=deepsea"),
        told="--moe-a2a-backend must be one of",
    ),
    PlanMistake(
        name="experts exchanged by none",
        cases=("lws, sglang", "script, sglang"),
        edit=flag("moe-a2a-backend", "--moe-a2a-backend=none"),
        told="--moe-a2a-backend must be deepep as the plan needs",
        folder=False,
    ),
    PlanMistake(
        name="experts not spread",
        cases=("lws, sglang", "script, sglang"),
        edit=flag("ep-size", None),
        told="--ep-size must be 16",
    ),
)
