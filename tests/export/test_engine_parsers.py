"""Every exported command line, put to the parser of the engine that it is for, Dynamo's workers among them.

The parsers run without a GPU, in packages that `make engine-parsers` installs; without those the tests are skipped. A
parser that cannot refuse would prove nothing: lines that are wrong come first. All tests that ask parsers are here, one
after the other, and ask for much at once: to import an engine takes ten seconds.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from functools import cache
from itertools import product
from typing import Any

import published
import pytest
from engine_parsers.drawn_plans import Exported, exported
from engine_parsers.installing import DYNAMOS, EXPORTED, LISTED, missing
from engine_parsers.lines import Line, cases, lines, model_config
from engine_parsers.verdicts import MODEL, Case, Gpus, Verdict, verdicts
from export_plans import island, plan_of, route
from hand_edits import HARMLESS_EDITS, OPERATING_EDITS, PARSERS, ROUTER_EDITS, WRONG_EDITS, HandEdit
from tiered_plans import BOTH, HOST, by_prefix, mixed_plan, split_plan, tiered
from tools import table

import planner
from planner.domain import CostSettings, ParallelConfig, Phase, halves_of
from planner.domain.serving.caches.tiers import RemoteStore
from planner.export import ENGINES, TARGETS, ExportOptions, render
from planner.export.engines.trtllm import OPTIONS_SCRIPT
from planner.files import load_engine, load_gpu_spec, load_model, model_document

SCENARIOS, FEWER_SCENARIOS = 12, 4
H20 = Gpus(name="H20", compute_capability="9.0", memory_bytes=102_625_181_696, count=8)
ALL_VERSIONS = (*EXPORTED, *DYNAMOS)
VERSIONS = {version.partition("-")[0]: version for version in EXPORTED}
OWN = tuple(engine for engine in ENGINES if VERSIONS[engine] not in LISTED)
"""Engines whose own classes judge, those of models among them."""

VLLM_LINE = (
    *("--tensor-parallel-size=4", "--data-parallel-size=2", "--enable-expert-parallel", "--port=8000"),
    *("--served-model-name", "org/model", "chat", "agents"),
    *("--all2all-backend=deepep_low_latency", "--max-num-seqs=64", "--max-num-batched-tokens=256"),
    *("--max-model-len=6095", "--gpu-memory-utilization=0.9", "--kv-cache-dtype=fp8", "--api-server-count=2"),
    '--kv-transfer-config={"kv_connector": "NixlConnector", "kv_role": "kv_consumer"}',
)
# (a flag, what it becomes or is joined by, a word of the refusal)
VLLM_MISTAKES = (
    ("--port=8000", "--no-such-flag", "unrecognized arguments: --no-such-flag"),
    ("--port=8000", "--port=http", "invalid int value"),
    ("--all2all-backend=deepep_low_latency", "--all2all-backend=deepest", "invalid choice"),
    ("--tensor-parallel-size=4", "--tensor-parallel-size=7", "must be divisible by tensor parallel size (7)"),
    ("--tensor-parallel-size=4", "--tensor-parallel-size=16", "larger than the number of available GPUs (8)"),
    ("--max-model-len=6095", "--max-model-len=1000000", "max_model_len"),
    ("--data-parallel-size=2", "--nnodes=3", "must evenly divide the total world size"),
    ("--gpu-memory-utilization=0.9", "--gpu-memory-utilization=90", "less than or equal to 1"),
    ('--kv-transfer-config={"kv_connector": "NixlConnector", "kv_role": "kv_consumer"}', "--headless", "headless"),
    ("--kv-cache-dtype=fp8", '--speculative-config={"method": "mtp"}', "num_speculative_tokens"),
    ("--port=8000", '--kv-events-config={"publisher": "zmqs"}', "publisher"),
    (
        '--kv-transfer-config={"kv_connector": "NixlConnector", "kv_role": "kv_consumer"}',
        '--kv-transfer-config={"kv_connector": "MultiConnector", "kv_role": "kv_producer", '
        '"kv_connector_extra_config": {"connectors": [{"kv_connector": "Offloading", "kv_role": "kv_both"}]}}',
        "Unsupported connector type: Offloading",
    ),
)
SGLANG_LINE = (
    *("--tp-size=8", "--dp-size=2", "--enable-dp-attention", "--moe-dense-tp-size=1", "--enable-dp-lm-head"),
    *("--ep-size=8", "--moe-a2a-backend=none", "--context-length=6095", "--mem-fraction-static=0.88"),
    *("--max-running-requests=128", "--kv-cache-dtype=fp8_e4m3", "--port=30000", "--disaggregation-mode=decode"),
    *("--disaggregation-transfer-backend=nixl", "--served-model-name=chat"),
)
SGLANG_MISTAKES = (
    ("--port=30000", "--no-such-flag", "unrecognized arguments: --no-such-flag"),
    ("--port=30000", "--port=http", "invalid int value"),
    ("--moe-a2a-backend=none", "--moe-a2a-backend=deepest", "invalid choice"),
    ("--dp-size=2", "--dp-size=3", "cfg.tp_size % cfg.attn_dp_size == 0"),
    ("--moe-dense-tp-size=1", "--moe-dense-tp-size=2", "moe_dense_tp_size only supports"),
    ("--port=30000", "--nnodes=3", "tp_size must be divisible by number of nodes"),
    ("--ep-size=8", "--ep-size=3", "ep_size"),
    ("--served-model-name=chat", "--served-model-name=chat:1", "cannot contain a colon"),
    ("--kv-cache-dtype=fp8_e4m3", "--speculative-algorithm=EAGLES", "EAGLES"),
    ("--port=30000", "--hicache-size=12.5", "invalid int value"),
    ("--port=30000", "--hicache-write-policy=write_off", "invalid choice"),
    ("--port=30000", "--hicache-storage-backend=files", "invalid choice"),
)


TRTLLM_OPTIONS: dict[str, Any] = {
    "enable_attention_dp": True,
    "kv_cache_config": {"free_gpu_memory_fraction": 0.9, "dtype": "fp8"},
    "cuda_graph_config": {"enable_padding": True, "max_batch_size": 64},
    "moe_config": {"backend": "CUTLASS", "load_balancer": {"num_slots": 264, "layer_updates_per_iter": 1}},
}
TRTLLM_LINE = (
    *("--host=0.0.0.0", "--port=8000", "--tensor_parallel_size=8", "--moe_expert_parallel_size=8"),
    *("--max_batch_size=64", "--max_num_tokens=256", "--max_seq_len=6095"),
)
TRTLLM_MISTAKES: tuple[tuple[str, str, dict[str, Any], str], ...] = (
    ("--port=8000", "--no_such_flag", {}, "No such option"),
    ("--port=8000", "--port=http", {}, "not a valid int"),
    ("--port=8000", "--backend=tensort", {}, "is not one of"),
    ("--tensor_parallel_size=8", "--tensor-parallel-size=8", {}, "No such option"),
    ("--tensor_parallel_size=8", "--tensor_parallel_size=4", {}, "world size must be the 8 GPUs"),
    ("--moe_expert_parallel_size=8", "--moe_expert_parallel_size=3", {}, "moe_tp_size * moe_ep_size"),
    ("--max_batch_size=64", "--max_batch_size=32", {}, "graphs of larger batches"),
    ("--port=8000", "--port=8000", {"enable_attention_db": True}, "enable_attention_db: Extra inputs"),
    ("--port=8000", "--port=8000", {"enable_attention_dp": 1}, "enable_attention_dp: must be bool"),
    ("--port=8000", "--port=8000", {"kv_cache_config": {"dtype": "bf16"}}, "kv_cache_config.dtype: must be one of"),
    ("--port=8000", "--port=8000", {"moe_config": {"load_balancer": {"num_slots": 257}}}, "num_slots 257 must be"),
    ("--port=8000", "--port=8000", {"cuda_graph_config": {"max_batch_size": "64"}}, "max_batch_size: must be int"),
    ("--port=8000", "--port=8000", {"kv_cache_config": {"host_cache_size": 1.5}}, "host_cache_size: must be int"),
)


def of_trtllm(options: object, *words: str) -> Case:
    """A pod's words, with the options as text of JSON or as they are."""
    text = options if isinstance(options, str) else json.dumps(options)
    command = ("sh", "-c", OPTIONS_SCRIPT, "trtllm", text, "trtllm-serve", "serve", MODEL)
    return Case(arguments=(*command, *words), environment={}, config=model_config("deepseek-v3"), gpu=H20)


def test_the_contract_of_trtllm_says_no() -> None:
    mistakes = [
        of_trtllm(TRTLLM_OPTIONS | more, *edited(TRTLLM_LINE, flag, other)) for flag, other, more, _ in TRTLLM_MISTAKES
    ]
    sound, *refusals = asked("trtllm", [of_trtllm(TRTLLM_OPTIONS, *TRTLLM_LINE), *mistakes])
    assert sound == Verdict(accepted=True, error="")
    for (_, other, more, told), verdict in zip(TRTLLM_MISTAKES, refusals, strict=True):
        assert told in verdict.error, (other, more)


def test_options_come_through_a_shell_as_they_are() -> None:
    """What they hold is no word of the shell's, and what is no file of options is not taken for one."""
    path = "a 'b' \"c\" $(exit 3) `exit 3` $1 \\n %s é"
    drafts = {"speculative_config": {"decoding_type": "Eagle", "max_draft_len": 3, "speculative_model_dir": path}}
    whole, short, flagless = asked(
        "trtllm",
        [
            of_trtllm(TRTLLM_OPTIONS | drafts, *TRTLLM_LINE),
            of_trtllm('{"enable_attention_dp": [', *TRTLLM_LINE),
            of_trtllm("--max_beam_width=2", *TRTLLM_LINE),
        ],
    )
    assert whole == Verdict(accepted=True, error="")
    assert not short.accepted
    assert not flagless.accepted


def case(line: Sequence[str], model: str, **changes: Any) -> Case:
    """A line for `model` on a pod of eight H20."""
    weights = MODEL if line[0].startswith("--tensor") else f"--model-path={MODEL}"
    made = Case(arguments=(weights, *line), environment={}, config=model_config(model), gpu=H20)
    return replace(made, **changes)


def edited(line: Sequence[str], flag: str, other: str) -> tuple[str, ...]:
    assert flag in line
    return tuple(other if word == flag else word for word in line)


def asked(engine: str, lines: Sequence[Case]) -> tuple[Verdict, ...]:
    """The verdicts, or a skip where the engine's packages are not installed."""
    version = VERSIONS[engine]
    if reason := missing(version):
        pytest.skip(reason)
    return verdicts(version, lines)


@pytest.mark.parametrize(
    ("engine", "line", "mistakes"),
    [("vllm", VLLM_LINE, VLLM_MISTAKES), ("sglang", SGLANG_LINE, SGLANG_MISTAKES)],
)
def test_parsers_say_no(engine: str, line: Sequence[str], mistakes: Sequence[tuple[str, str, str]]) -> None:
    wrong = [case(edited(line, flag, other), "deepseek-v3") for flag, other, _ in mistakes]
    sound, *refusals = asked(engine, [case(line, "deepseek-v3"), *wrong])
    assert sound == Verdict(accepted=True, error="")
    for (_, other, told), verdict in zip(mistakes, refusals, strict=True):
        assert not verdict.accepted, other
        assert told in verdict.error, other


AMDS = tuple(
    Gpus(name=name, compute_capability="9.4", memory_bytes=205_822_885_888, count=8, architecture=architecture)
    for name, architecture in (("MI300X", "gfx942"), ("MI355X", "gfx950"))
)


@pytest.mark.parametrize(
    ("engine", "words", "refusals"),
    [
        ("vllm", ("--tensor-parallel-size=8", "--quantization=gptq_marlin"), ("", "in rocm", "in rocm")),
        ("sglang", ("--tp-size=8", "--quantization=mxfp4"), ("", "Unknown quantization method: mxfp4", "")),
    ],
)
def test_each_architecture_has_an_engine_of_its_own(engine: str, words: Sequence[str], refusals: Sequence[str]) -> None:
    """The engine looks once at whose GPUs it runs on; NVIDIA's may well refuse the line for another reason."""
    lines = [case(words, "llama-3.1-70b", gpu=gpus) for gpus in (H20, *AMDS)]
    for refusal, verdict in zip(refusals, asked(engine, lines), strict=True):
        assert refusal in verdict.error
        assert refusal or "rocm" not in verdict.error


def shared(ranks: int, model: str, backend: str = "none", redundant: int = 0) -> Case:
    """As many attention groups as GPUs, which share the experts."""
    degrees = (f"--tp-size={ranks}", f"--dp-size={ranks}", f"--ep-size={ranks}", "--enable-dp-attention")
    more = (f"--ep-num-redundant-experts={redundant}",) if redundant else ()
    return case((*degrees, f"--moe-a2a-backend={backend}", "--moe-dense-tp-size=1", *more), model)


def test_sglang_refuses_shared_experts_that_it_cannot_split() -> None:
    """DeepSeek-V3's has 2 048 columns in blocks of 128, GLM-4.5's 1 536, DeepSeek-V2's 3 072; DeepEP keeps it whole."""
    sound = [shared(8, "deepseek-v3"), shared(24, "deepseek-v3", "deepep", 8), shared(8, "glm-4.5")]
    sound += [
        shared(16, "deepseek-v3"),
        shared(12, "deepseek-v2", redundant=8),
        shared(13, "qwen3-235b-a22b", redundant=2),
    ]
    uneven = [shared(ranks, "deepseek-v3", redundant=-256 % ranks) for ranks in (10, 11, 13, 17, 20)]
    uneven += [shared(10, "glm-4.5"), shared(13, "deepseek-v2", redundant=9)]
    cut = [shared(32, "deepseek-v3")]
    experts = [shared(12, "glm-4.5", redundant=8), shared(24, "deepseek-v3")]
    answers = iter(asked("sglang", [*sound, *uneven, *cut, *experts]))
    assert [next(answers).error for _ in sound] == [""] * len(sound)
    assert all("output_size % tp_size == 0" in next(answers).error for _ in uneven)
    assert all("not divisible by weight quantization block_n" in next(answers).error for _ in cut)
    assert all("self._num_global_routed % storage_ep_size == 0" in next(answers).error for _ in experts)


MIXED = (
    {"model": "llama-3.1-70b", "inventory": {"H100": 8}},
    {"model": "deepseek-v3", "inventory": {"H200": 16}},
    {"model": "deepseek-v3", "inventory": {"H20-3E": 32}, "cost": {"mtp_tokens": 1, "redundant_experts": 32}},
    {"model": "gpt-oss-120b", "inventory": {"H100": 8}},
    {"model": "llama-3.1-70b", "inventory": {"H100": 16}, "serving": "auto", "simplicity": 0},
)


@pytest.mark.parametrize("engine", ENGINES)
def test_lines_of_servers_of_both_phases_are_accepted(engine: str) -> None:
    if reason := missing(VERSIONS[engine]):
        pytest.skip(reason)
    lines: list[Case] = []
    slo = {"ttft_ms": 6000, "tpot_ms": 200, "percentile": 99}
    for sections in MIXED:
        document = {"serving": "aggregated", "workload": "azure-conv-2023", "slo": slo, "engine": engine, **sections}
        plan = planner.plan(**document).record
        assert any(island.phase is Phase.MIXED for island in plan.islands), sections
        lines += cases(render(plan, target="lws", engine=engine), plan, engine)
    refused = [
        f"{verdict.error}\n{' '.join(line.arguments)}"
        for line, verdict in zip(lines, asked(engine, lines), strict=True)
        if not verdict.accepted
    ]
    assert not refused, "\n".join(refused)


TIERED = ("llama-3.1-70b", "deepseek-v3", "gpt-oss-120b")
"""Grouped heads, latent attention, and windows, which vLLM keeps on no disk."""


BELOW: tuple[tuple[dict[str, Any], dict[str, str]], ...] = (
    (HOST, {}),
    (BOTH, {}),
    (
        {**HOST, "remote": RemoteStore(gb=1e5, gb_per_s_per_node=10.0)},
        {"vllm": "lm://store:65432", "sglang": "mooncake://master:50051"},
    ),
)
"""Tiers, and where a store answers."""


def tiered_lines() -> Iterator[tuple[str, Line]]:
    """Servers with host memory below their GPUs', and disks where the engine has them, started by themselves and by
    Dynamo, whose routers go by prefix."""
    for engine, name, target in product(ENGINES, TIERED, ("lws", "dynamo")):
        model = load_model(name)
        parallel = ParallelConfig(tp=1, dp=8) if model.experts else ParallelConfig(tp=8, dp=1)
        disks = engine != "trtllm" and not (engine == "vllm" and model.windowed)
        for plan, (sizes, store) in product(
            (split_plan(parallel, model=model), mixed_plan(parallel, model=model)), BELOW[: 3 if disks else 1]
        ):
            planned = by_prefix(tiered(plan, **sizes))
            options = ExportOptions(kv_store=store.get(engine, ""))
            files = render(planned, target=target, engine=engine, options=options)
            for line in lines(files, planned, engine, model_config(name)):
                yield f"{name}, {target}, {', '.join(sizes)}", line


def test_lines_with_caches_below_device_memory_are_accepted() -> None:
    rows: dict[str, list[tuple[str, Case]]] = {}
    for name, line in tiered_lines():
        rows.setdefault(line.version, []).append((f"{name}, {line.where}", line.case))
    assert rows.keys() == set(ALL_VERSIONS)
    for version, named in rows.items():
        if missing(version):
            continue
        refused = [
            f"{version}, {name}: {answer.error}\n{' '.join(case.arguments)}"
            for (name, case), answer in zip(named, verdicts(version, [case for _, case in named]), strict=True)
            if not answer.accepted
        ]
        assert not refused, "\n".join(refused)


SERVED = (
    ("qwen/qwen3.5-397b-a17b", "H200", (ParallelConfig(tp=8, dp=2), ParallelConfig(tp=1, dp=16))),
    ("deepseek-ai/deepseek-v4-flash", "DGX-B200", (ParallelConfig(tp=8, dp=1), ParallelConfig(tp=1, dp=8))),
    ("zai-org/glm-5-fp8", "H20", (ParallelConfig(tp=8, dp=2), ParallelConfig(tp=1, dp=64))),
    ("nvidia/nvidia-nemotron-3-super-120b-a12b-fp8", "H100", (ParallelConfig(tp=8, dp=1), ParallelConfig(tp=4, dp=2))),
    ("moonshotai/kimi-k2.5", "H200", (ParallelConfig(tp=8, dp=2), ParallelConfig(tp=1, dp=16))),
    ("google/gemma-4-26b-a4b", "L40S", (ParallelConfig(tp=2, dp=1),)),
    ("nvidia/minimax-m3-nvfp4", "DGX-B200", (ParallelConfig(tp=8, dp=1), ParallelConfig(tp=4, dp=1))),
    ("meta-llama/llama-4-maverick-17b-128e-instruct", "H200", (ParallelConfig(tp=8, dp=1),)),
)
"""Published ids, GPUs, and degrees of both phases."""


def served_lines(engine: str, name: str, kind: str, parallel: ParallelConfig) -> Iterator[Line]:
    """Command lines of servers of prefill, decode and both, of a published model and as its config.json says."""
    spec = replace(load_gpu_spec(kind), node_selector=(("gpu", kind),))
    model = replace(published.model_of(name), uri=f"hf://{name}")
    config = {key: value for key, value in published.config_of(name).items() if key != "auto_map"}
    phases = ((Phase.PREFILL, 4, 8192), (Phase.DECODE, 32, 0)), ((Phase.MIXED, 32, 8192),)
    for islands in phases:
        placed = tuple(
            replace(island(f"{phase}-0", kind, phase, parallel, batch_size=batch), tokens_per_step=budget)
            for phase, batch, budget in islands
        )
        routes = tuple(route(i.id, half, 0, 1.0) for i in placed if i.phase for half in halves_of(i.phase))
        cost = CostSettings(mtp_tokens=min(1, model.mtp_layers))
        plan = plan_of(placed, gpus=(spec,), model=model, routing=routes, cost=cost)
        plan = replace(plan, scenario=replace(plan.scenario, engine=load_engine(engine)))
        yield from lines(render(plan, target="lws", engine=engine), plan, engine, config)


def assert_accepted(engine: str, named_lines: Sequence[tuple[str, Case]]) -> None:
    answers = asked(engine, [case for _, case in named_lines])
    refused = [
        f"{name}: {answer.error}\n{' '.join(case.arguments)}"
        for (name, case), answer in zip(named_lines, answers, strict=True)
        if not answer.accepted
    ]
    assert not refused, "\n".join(refused)


@pytest.mark.parametrize("engine", OWN)
def test_models_of_2026_are_served(engine: str) -> None:
    """The models' own classes and configurations judge their lines."""
    if reason := missing(VERSIONS[engine]):
        pytest.skip(reason)
    asked_lines = [
        (name, line.case)
        for name, kind, parallels in SERVED
        for parallel in parallels
        for line in served_lines(engine, name, kind, parallel)
    ]
    assert_accepted(engine, asked_lines)
    assert {name for name, _ in asked_lines} == {name for name, *_ in SERVED}


PROMPTS_OF_HALF_A_MILLION = {
    "kind": "normal",
    **{"name": "half-a-million", "citation": "made up", "source": "made up"},
    **{"mean": 450_000, "standard_deviation": 60_000, "low": 300_000, "high": 512_000},
    **{"mean_output_tokens": 800, "max_output_tokens": 4000},
}
CHAT = {"workload": "azure-conv-2023", "slo": {"ttft_ms": 6000, "tpot_ms": 100}}
LONG = {"workload": PROMPTS_OF_HALF_A_MILLION, "slo": {"ttft_ms": 600_000, "tpot_ms": 100}, "serving": "split"}
FLEETS = (  # published id, GPUs, question, engine that the suite asks; a study asks the other
    ("qwen/qwen3.5-397b-a17b", {"H200": 16}, CHAT, "sglang"),
    ("deepseek-ai/deepseek-v4-flash", {"DGX-B200": 8}, CHAT, "vllm"),
    ("zai-org/glm-5-fp8", {"H200": 64, "H20": 64}, CHAT, "sglang"),
    ("nvidia/nvidia-nemotron-3-super-120b-a12b-fp8", {"H100": 8}, CHAT, "vllm"),
    ("moonshotai/kimi-k2.5", {"H200": 16}, CHAT, "vllm"),
    ("google/gemma-4-26b-a4b", {"L40S": 2}, CHAT, "vllm"),
    ("nvidia/minimax-m3-nvfp4", {"H200": 16}, LONG, "vllm"),
)


@pytest.mark.parametrize("engine", [*OWN, *(pytest.param(engine, marks=pytest.mark.study) for engine in OWN)])
def test_plans_of_models_of_2026_are_replayed_and_served(engine: str, request: pytest.FixtureRequest) -> None:
    if reason := missing(VERSIONS[engine]):
        pytest.skip(reason)
    in_suite = request.node.get_closest_marker("study") is None
    asked_lines = []
    for name, inventory, question, usual in FLEETS:
        if (usual == engine) is not in_suite:
            continue
        model = model_document(replace(published.model_of(name), name="served", uri=f"hf://{name}"))
        deployed = planner.plan(model=model, inventory=inventory, engine=engine, progress=False, **question)
        replayed = deployed.replay(requests=15_000, seeds=1, progress=False)
        assert replayed.holds, name
        plan = deployed.record
        config = {key: value for key, value in published.config_of(name).items() if key != "auto_map"}
        asked_lines += [
            (name, line.case) for line in lines(render(plan, target="lws", engine=engine), plan, engine, config)
        ]
    assert_accepted(engine, asked_lines)


@cache
def drawn() -> tuple[Exported, ...]:
    of_lists = tuple(engine for engine in ENGINES if engine not in OWN)
    return (*exported(SCENARIOS), *exported(FEWER_SCENARIOS, engines=of_lists))


def drawn_lines(engine: str) -> dict[str, tuple[int, Case]]:
    """Every line of the drawn scenarios once, with the seed of its scenario."""
    return {
        json.dumps(asdict(line), sort_keys=True): (export.seed, line)
        for export in drawn()
        if export.engine == engine
        for line in cases(export.files, export.plan, engine)
    }


@pytest.mark.parametrize("engine", ENGINES)
def test_exported_lines_are_accepted(engine: str) -> None:
    if reason := missing(VERSIONS[engine]):
        pytest.skip(reason)
    lines = drawn_lines(engine)
    assert len(lines) >= (SCENARIOS if engine in OWN else FEWER_SCENARIOS)
    answers = asked(engine, [line for _, line in lines.values()])
    refused = [
        f"scenario {seed}: {verdict.error}\n{' '.join(line.arguments)}"
        for (seed, line), verdict in zip(lines.values(), answers, strict=True)
        if not verdict.accepted
    ]
    assert not refused, "\n".join(refused)


@pytest.mark.parametrize("version", ALL_VERSIONS)
def test_every_command_line_of_every_target_is_taken_by_its_engine(version: str) -> None:
    if reason := missing(version):
        pytest.skip(reason)
    answers = table.parsed(version)
    refused = [line for answer in answers.values() for line in answer.refused]
    assert not refused, "\n".join(refused)
    engine = next(name for name in ENGINES if name in version)
    serving = {name for name, row in TARGETS.items() if engine in row.engines and any(k.workloads for k in row.kinds)}
    assert answers.keys() == ({"dynamo"} if version in DYNAMOS else serving - {"dynamo"})


DYNAMO_WORDS = {
    "dynamo.vllm": (
        (("--tensor-parallel-size", "8"), ""),
        (("--no-such-flag",), "unrecognized arguments"),
        (("--max-num-seqs", "many"), "invalid int value"),
        (("--all2all-backend", "deepest"), "invalid choice"),
        (("--tensor-parallel-size", "7"), "divisible by tensor parallel size (7)"),
        (("--disaggregation-mode", "prefill"), "--kv-transfer-config"),
        (("--disaggregation-mode", "both"), "invalid choice"),
    ),
    "dynamo.sglang": (
        (("--tp-size", "8"), ""),
        (("--no-such-flag",), "unrecognized arguments"),
        (("--max-running-requests", "many"), "invalid int value"),
        (("--moe-a2a-backend", "deepest"), "invalid choice"),
        (("--tp-size", "8", "--dp-size", "3", "--enable-dp-attention"), "tp_size % cfg.dp_size"),
    ),
    "dynamo.trtllm": (
        (("--tensor-parallel-size", "8", "--max-batch-size", "8", "--trtllm.kv_cache_config.dtype", "fp8"), ""),
        (("--tensor-parallel-size", "8", "--max-batch-size", "8", "--no-such-flag", "1"), "exit status"),
        (("--max-batch-size", "many"), "invalid int value"),
        (("--disaggregation-mode", "both"), "invalid choice"),
        (("--tensor-parallel-size", "8", "--max-batch-size", "8", "--trtllm.kv_cache_config.dtype", "f8"), "one of"),
        (("--tensor-parallel-size", "8", "--max-batch-size", "8", "--trtllm.enable_attention_db", "true"), "Extra"),
        (("--tensor-parallel-size", "8", "--max-batch-size", "8", "--trtllm.max_seq_len"), "exit status"),
        (("--tensor-parallel-size", "4", "--max-batch-size", "8"), "world size must be the 8 GPUs"),
    ),
}


@pytest.mark.parametrize("version", DYNAMOS)
def test_dynamos_workers_say_no(version: str) -> None:
    if reason := missing(version):
        pytest.skip(reason)
    rows = DYNAMO_WORDS[version.partition("-")[0]]
    weights = ("--model-path" if "sglang" in version else "--model", MODEL)
    answers = verdicts(
        version, [case((*weights, *words), "deepseek-v3", arguments=(*weights, *words)) for words, _ in rows]
    )
    for (words, told), answer in zip(rows, answers, strict=True):
        assert answer.accepted == (not told), (words, answer.error)
        assert told in answer.error, words


def changed(edit: HandEdit) -> list[Line]:
    """The command lines that an edit changes."""
    export = table.export_of(*edit.export)
    before = {repr(line.case) for line in lines(export.files, export.plan, export.engine)}
    after = lines(edit.apply(dict(export.files)), export.plan, export.engine)
    return [line for line in after if repr(line.case) not in before]


@cache
def edited_lines() -> tuple[tuple[HandEdit, Line], ...]:
    """Those of each edit that parsers have to refuse, or ought to take."""
    edits = (*WRONG_EDITS, *HARMLESS_EDITS, *OPERATING_EDITS, *ROUTER_EDITS)
    asked = [edit for edit in edits if PARSERS in edit.judges or not edit.rejected]
    return tuple((edit, line) for edit in asked for line in changed(edit))


def test_an_edit_that_parsers_refuse_changes_a_line() -> None:
    refused = {edit.kind for edit in (*WRONG_EDITS, *ROUTER_EDITS) if PARSERS in edit.judges and edit.rejected}
    assert refused <= {edit.kind for edit, _ in edited_lines()}


@pytest.mark.parametrize("version", ALL_VERSIONS)
def test_hand_edits_are_refused_and_taken_as_ours_are(version: str) -> None:
    rows = [(edit, line) for edit, line in edited_lines() if line.version == version]
    if reason := missing(version):
        pytest.skip(reason)
    answers = verdicts(version, [line.case for _, line in rows])
    wrong = [
        (edit.kind, answer) for (edit, _), answer in zip(rows, answers, strict=True) if answer.accepted == edit.rejected
    ]
    assert wrong == []
