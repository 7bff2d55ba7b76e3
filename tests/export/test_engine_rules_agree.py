"""What the cost model's rules accept on whole nodes, the export writes; and what it writes reads back as it was."""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import pytest
from export_plans import island, plan_of

from planner.cost.device import CostContext
from planner.cost.engine_rules import greatest_batch, may_overlap, refusals
from planner.cost.parallelism import configurations
from planner.domain import (
    PHASES,
    CostSettings,
    EngineProfile,
    GpuSpec,
    ParallelConfig,
    Phase,
    Plan,
    PlannedIsland,
    ServerConfig,
)
from planner.errors import ExportError, InputError
from planner.export import ENGINES, read_server, render
from planner.export.engines.seam import Rendezvous
from planner.export.islands import ServingIsland, serving_islands
from planner.files import engine_profiles, load_engine, load_gpu_spec, load_model

MODELS = ("deepseek-v3", "glm-4.5", "qwen3-235b-a22b", "mixtral-8x7b", "gpt-oss-120b", "llama-3.1-70b", "kimi-k2")
GPUS = ("H200", "A100", "L40S", "GB200-NVL72", "MI300X", "MI355X")
SIZES = (1, 2, 4, 8, 16, 32)
STANDARD = tuple(load_engine(name) for name in ENGINES)
NOBODY = Rendezvous(leader_address="127.0.0.1", pod_index="0")
JOINED = replace(NOBODY, joined=True)


def servers(context: CostContext, phase: Phase, profile: EngineProfile) -> Iterator[ServerConfig]:
    """Servers of whole nodes that are not refused, of one replica."""
    for size in SIZES:
        for parallel in configurations(context, size):
            if parallel.replicas > 1 or refusals(context, phase, parallel, profile):
                continue
            limit = greatest_batch(context, phase, parallel, profile)
            yield ServerConfig(
                parallel=parallel,
                tokens_per_step=8192 if phase is Phase.PREFILL else 0,
                batch_size=min(limit or 256, 256) if phase is Phase.DECODE else 4,
                overlapped=may_overlap(context, phase, parallel, profile),
            )


def planned(server: ServerConfig, phase: Phase, kind: GpuSpec) -> PlannedIsland:
    return replace(
        island(f"{phase}-0", kind.name, phase, server.parallel, batch_size=server.batch_size),
        tokens_per_step=server.tokens_per_step,
        overlapped=server.overlapped,
    )


def alone(server: ServerConfig, phase: Phase, context: CostContext, profile: EngineProfile) -> ServingIsland:
    """The island of one server: what it hands over to is another question."""
    one_island = (planned(server, phase, context.gpu),)
    plan = plan_of(one_island, gpus=(context.gpu,), model=context.model, routing=(), cost=context.settings)
    (only,) = serving_islands(replace(plan, scenario=replace(plan.scenario, engine=profile)), "p")
    return only


@cache
def spec(name: str) -> GpuSpec:
    return replace(load_gpu_spec(name), node_selector=(("gpu", name),))


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("profile", STANDARD, ids=str)
def test_what_is_accepted_on_whole_nodes_is_written(profile: EngineProfile, model: str) -> None:
    shape, written = load_model(model), 0
    for kind in map(spec, GPUS):
        for redundant in (0, 8):
            context = CostContext(gpu=kind, model=shape, settings=CostSettings(redundant_experts=redundant))
            for phase in PHASES:
                for server in servers(context, phase, profile):
                    only = alone(server, phase, context, profile)
                    launch = ENGINES[profile.name].launch(only, NOBODY)  # raises where the engine refuses
                    assert read_server(profile.name, launch.leader.arguments, phase) == server
                    assert not any(note.startswith("WARNING: the plan's rates hide") for note in launch.notes)
                    written += 1
    assert written > (50 if profile.spans_hosts else 20)


@pytest.mark.parametrize("profile", STANDARD, ids=str)
@pytest.mark.parametrize("model", ["deepseek-v3", "glm-4.5", "gpt-oss-120b"])
def test_layers_that_are_refused_are_not_written(profile: EngineProfile, model: str) -> None:
    """Sizes of no whole nodes among them."""
    context, refused = CostContext(gpu=spec("H200"), model=load_model(model), settings=CostSettings()), 0
    for size in (3, 5, 6, 9, 10, 12, 13, 15, 17, 20, 24, 28):
        for parallel in configurations(context, size):
            sentences = refusals(context, Phase.DECODE, parallel, profile)
            server = ServerConfig(parallel=parallel, batch_size=64)
            try:
                ENGINES[profile.name].launch(alone(server, Phase.DECODE, context, profile), JOINED)
            except ExportError:
                assert sentences
                refused += 1
            else:
                assert not [sentence for sentence in sentences if "share out" in sentence]
    shared_whole = not profile.layers.split_unspread and bool(context.model.shared_experts)
    assert bool(refused) is (shared_whole or profile.layers.groups_of_one)


def test_every_profile_accepts_something() -> None:
    context = CostContext(gpu=spec("H200"), model=load_model("deepseek-v3"), settings=CostSettings())
    for profile in engine_profiles():
        assert len(list(servers(context, Phase.DECODE, profile))) > (10 if profile.spans_hosts else 4)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "parallel",
    [
        ParallelConfig(tp=1, dp=1),
        ParallelConfig(tp=2, dp=4),
        ParallelConfig(tp=8, dp=1),
        ParallelConfig(tp=1, dp=32),
        ParallelConfig(tp=4, dp=2, replicas=3),
        ParallelConfig(tp=4, dp=2, pp=2),
    ],
)
@pytest.mark.parametrize("phase", PHASES)
def test_a_launch_reads_back_as_its_island(engine: str, parallel: ParallelConfig, phase: Phase) -> None:
    prefill = replace(planned(ServerConfig(parallel=parallel, tokens_per_step=4096, batch_size=3, overlapped=True),
                              Phase.PREFILL, spec("H200")), gpu="H200")  # fmt: skip
    decode = replace(
        planned(ServerConfig(parallel=parallel, batch_size=96), Phase.DECODE, spec("H200")), overlapped=False
    )
    plan = plan_of((prefill, decode), gpus=(spec("H200"),), model=load_model("qwen3-235b-a22b"))
    (only,) = (i for i in serving_islands(plan, "p") if i.phase is phase)
    if engine == "trtllm" and (parallel.pp > 1 or min(parallel.tp, parallel.dp) > 1 or only.grouping.pods > 1):
        with pytest.raises(ExportError, match=r"must be 1|must fit into a pod"):
            ENGINES[engine].launch(only, NOBODY)
        return
    launch = ENGINES[engine].launch(only, NOBODY)
    for pod in (launch.leader, launch.worker):
        if pod is not None:
            server = read_server(engine, pod.arguments, phase)
            assert server.parallel == replace(parallel, replicas=1)
            assert server.tokens_per_step == (4096 if phase is Phase.PREFILL else 0)
            assert server.batch_size == (3 if phase is Phase.PREFILL else 96)
            flagged = {"--enable-dbo", "--enable-two-batch-overlap"} & set(launch.leader.arguments)
            assert server.overlapped == bool(flagged)


@pytest.mark.parametrize(
    ("engine", "line", "words"),
    [
        ("vllm", "-tp=8 --max-num-seqs=8", "must be given by the flags that the planner writes, in full, got -tp"),
        ("vllm", "--tensor-parallel-size=8", "--max-num-seqs must be a whole number above 0, got none"),
        ("vllm", "--tensor-parallel-size=8 --tensor-parallel-size=4 --max-num-seqs=8", "must be given once"),
        ("vllm", "--tensor-parallel-size=x --max-num-seqs=8", "--tensor-parallel-size must be a whole number above 0"),
        ("sglang", "--tp=8 --max-running-requests=8", "in full, got --tp"),
        ("sglang", "--tp-size=8 --dp-size=8 --max-running-requests=64", "--enable-dp-attention must be there"),
        (
            "sglang",
            "--tp-size=6 --dp-size=4 --enable-dp-attention --max-running-requests=64",
            "over 4 attention groups",
        ),
        ("sglang", "--tp-size=8 --dp-size=8 --enable-dp-attention --max-running-requests=4", "groups, got 4"),
        ("trtllm", "--tp_size=8 --max_batch_size=8", "in full, got --tp_size"),
        ("trtllm", "--tensor_parallel_size=8 --tensor-parallel-size=8 --max_batch_size=8", "must be given once"),
        ("trtllm", "--tensor_parallel_size=8 --max_batch_size=8 --config=x", "in full, got --config"),
        ("trtllm", '{"max_batch_size":9} --max_batch_size=8', "options must leave max_batch_size to its flag"),
        ("trtllm", "--max-batch-size=8 --trtllm.tensor_parallel_size=8", "leave tensor_parallel_size to its flag"),
        ("trtllm", '{"enable_attention_dp":tru} --max_batch_size=8', "options must be one object of JSON"),
        ("trtllm", "{} {} --max_batch_size=8", "options must be one object of JSON"),
        ("trt", "", "must be one of vllm, sglang, trtllm"),
    ],
)
def test_a_line_that_does_not_tell_is_refused(engine: str, line: str, words: str) -> None:
    with pytest.raises(InputError) as error:
        read_server(engine, line.split(), Phase.DECODE)
    assert words in error.value.message


def tuned_plan(profile: EngineProfile, kind: GpuSpec, **fields: object) -> Plan:
    """Two islands of eight GPUs, priced for an engine."""
    wide = ParallelConfig(tp=1, dp=8)
    islands = tuple(
        replace(island(f"{phase}-0", kind.name, phase, wide, batch_size=8), **fields)  # type: ignore[arg-type]
        for phase in PHASES
    )
    plan = plan_of(islands, gpus=(kind,))
    return replace(plan, scenario=replace(plan.scenario, engine=profile))


@pytest.mark.parametrize("profile", STANDARD, ids=str)
def test_the_engine_that_a_plan_was_priced_for_is_exported(profile: EngineProfile) -> None:
    other = next(name for name in ENGINES if name != profile.name)
    tuned = tuned_plan(profile, spec("H200"), tokens_per_step=8192, overlapped=False)
    text = "".join(render(tuned).values())
    assert dict(profile.images)["NVIDIA"] in text
    assert render(tuned) == render(tuned, engine=profile.name)
    with pytest.raises(ExportError) as error:
        render(tuned, engine=other)
    assert f"Engine {other}: must be {profile.name}, which the servers of prefill-0 were priced for." in str(
        error.value
    )
    assert f"plan again with `engine: {{name: {other}}}`" in str(error.value)
    assert render(tuned_plan(profile, spec("H200")), engine=other)
    assert render(tuned_plan(EngineProfile(), spec("H200"), tokens_per_step=8192), engine=other)


def test_a_version_has_its_own_image() -> None:
    newer = load_engine("vllm", "0.31.0")
    assert "vllm/vllm-openai:v0.31.0" in "".join(render(tuned_plan(newer, spec("H200"))).values())


@pytest.mark.parametrize(
    ("engine", "kind", "image"),
    [
        ("sglang", "MI300X", "lmsysorg/sglang:v0.5.23-rocm720-mi30x"),
        ("sglang", "MI355X", "lmsysorg/sglang:v0.5.23-rocm720-mi35x"),
        ("vllm", "MI325X", "vllm/vllm-openai-rocm:v0.33.0"),
    ],
)
def test_amd_needs_no_further_flags(engine: str, kind: str, image: str) -> None:
    plan = tuned_plan(load_engine(engine), spec(kind))
    for target in ("lws", "kubernetes", "script"):
        assert image in "".join(render(plan, target=target).values())
