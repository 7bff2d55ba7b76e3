"""TensorRT-LLM's servers: what each phase, format and GPU is started with, who makes pairs of them, and what of a plan
is refused. Whether its program takes the words is for `test_engine_parsers`; that plans read back, for the contract."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from contract_plans import planned, two_range_plan
from export_plans import MODEL, gpu, island, plan_of, route
from quick_yaml import load_documents

import planner as api
from planner.cost.device import CostContext
from planner.cost.engine_rules import refusals
from planner.domain import CostSettings, ModelSpec, ParallelConfig, Phase, Plan, RouterPolicy, halves_of
from planner.domain.model import WeightFormat
from planner.errors import ExportError, InputError
from planner.export import ExportOptions, compare, observe_queries, render
from planner.export.engines.seam import Launch, Rendezvous
from planner.export.engines.started import dialect_of, engine_start
from planner.export.engines.trtllm import TRTLLM, read_server
from planner.export.islands import serving_islands
from planner.files import load_engine, load_gpu_spec

NOBODY = Rendezvous(leader_address="127.0.0.1", pod_index="0")
EIGHT, ONES = ParallelConfig(tp=8, dp=1), ParallelConfig(tp=1, dp=8)
FP8 = replace(MODEL, architecture="DeepseekV3ForCausalLM", weight_block=128, quantization="fp8")


def a_plan(phase: Phase, parallel: ParallelConfig, kind: str, model: ModelSpec, **cost: object) -> Plan:
    spec = replace(load_gpu_spec(kind), node_selector=(("gpu", kind),))
    own = island("own", kind, phase, parallel, batch_size=48)
    other = island("other", kind, Phase.PREFILL if phase is Phase.DECODE else Phase.DECODE, EIGHT, batch_size=48)
    placed = (own,) if phase is Phase.MIXED else (own, other)
    routes = tuple(route(i.id, half, 0, 1.0) for i in placed if i.phase for half in halves_of(i.phase))
    settings = CostSettings(**cost)  # type: ignore[arg-type]  # the keys are its own
    plan = plan_of(placed, gpus=(spec,), model=model, routing=routes, cost=settings)
    return replace(plan, scenario=replace(plan.scenario, engine=load_engine("trtllm")))


def launched(
    phase: Phase, parallel: ParallelConfig = ONES, kind: str = "H200", model: ModelSpec = FP8, **cost: object
) -> Launch:
    (own,) = (i for i in serving_islands(a_plan(phase, parallel, kind, model, **cost), "p") if i.id == "own")
    return TRTLLM.launch(own, NOBODY)


def options(launch: Launch) -> dict[str, Any]:
    return dict(json.loads(launch.leader.arguments[0]))


def test_phases_differ_as_upstreams_examples_do() -> None:
    prefill, decode, mixed = (options(launched(phase)) for phase in (Phase.PREFILL, Phase.DECODE, Phase.MIXED))
    assert (prefill["disable_overlap_scheduler"], prefill["cuda_graph_config"]) == (True, None)
    for other in (decode, mixed):
        assert "disable_overlap_scheduler" not in other
        assert other["cuda_graph_config"] == {"enable_padding": True, "max_batch_size": 48}
    assert [row.get("enable_chunked_prefill") for row in (prefill, decode, mixed)] == [True] * 3
    assert [row.get("cache_transceiver_config", {}).get("backend") for row in (prefill, decode, mixed)] == [
        *("NIXL", "NIXL", None)
    ]


def test_attention_groups_lie_within_the_stage() -> None:
    for parallel, grouped in ((EIGHT, None), (ONES, True)):
        launch = launched(Phase.DECODE, parallel)
        assert options(launch).get("enable_attention_dp") is grouped
        assert "--tensor_parallel_size=8" in launch.leader.arguments
        assert "--moe_expert_parallel_size=8" in launch.leader.arguments
        assert "--max_batch_size=48" in launch.leader.arguments  # a rank's, however many there are
        assert read_server(launch.leader.arguments, Phase.DECODE).parallel == parallel
    with pytest.raises(ExportError, match="tensor_parallel_size must be 1 in several attention groups, got 4"):
        launched(Phase.DECODE, ParallelConfig(tp=4, dp=2))


@pytest.mark.parametrize(
    ("kind", "formats", "block", "kernels"),
    [
        ("H200", (WeightFormat.FP8,), 128, "CUTLASS"),
        ("H200", (WeightFormat.MXFP4,), 0, "TRITON"),
        ("DGX-B200", (WeightFormat.FP8,), 128, "DEEPGEMM"),
        ("DGX-B200", (WeightFormat.FP8,), 0, "CUTLASS"),
        ("DGX-B200", (WeightFormat.FP8, WeightFormat.NVFP4), 128, "TRTLLM"),
        ("DGX-B200", (WeightFormat.MXFP4,), 0, "TRTLLM"),
        ("RTX-PRO-6000", (WeightFormat.NVFP4,), 0, "CUTLASS"),
    ],
)
def test_kernels_of_experts_go_by_generation_and_format(
    kind: str, formats: tuple[WeightFormat, ...], block: int, kernels: str
) -> None:
    model = replace(FP8, formats=formats, weight_block=block)
    assert options(launched(Phase.MIXED, ParallelConfig(tp=1, dp=4), kind, model))["moe_config"]["backend"] == kernels


def test_experts_are_there_twice_where_that_is_planned_or_needed() -> None:
    assert "load_balancer" not in options(launched(Phase.DECODE))["moe_config"]
    asked = options(launched(Phase.DECODE, redundant_experts=8))["moe_config"]["load_balancer"]
    assert asked == {"num_slots": 264, "layer_updates_per_iter": 1}
    filled = options(launched(Phase.DECODE, ParallelConfig(tp=1, dp=6)))["moe_config"]["load_balancer"]
    assert filled == {"num_slots": 258, "layer_updates_per_iter": 0}
    with pytest.raises(ExportError, match=r"redundant experts must be none \(cost.redundant_experts\), got 8"):
        launched(Phase.DECODE, model=replace(FP8, architecture="Glm4MoeForCausalLM"), redundant_experts=8)


def test_drafts_and_caches() -> None:
    plain = options(launched(Phase.DECODE, model=replace(FP8, kv_bytes=2.0)))
    assert "dtype" not in plain["kv_cache_config"]
    assert "speculative_config" not in plain
    drafting = launched(Phase.DECODE, model=replace(FP8, mtp_layers=1), mtp_tokens=3)
    assert options(drafting)["speculative_config"] == {"decoding_type": "MTP", "num_nextn_predict_layers": 3}
    assert options(drafting)["kv_cache_config"]["dtype"] == "fp8"
    assert "--max_num_tokens=256" in drafting.leader.arguments
    with pytest.raises(ExportError, match="has no kernels that read an FP8 cache"):
        launched(Phase.DECODE, kind="L40S", parallel=ParallelConfig(tp=1, dp=8))


def test_servers_of_several_pods_are_for_whoever_starts_their_ranks() -> None:
    wide = ParallelConfig(tp=1, dp=16)
    with pytest.raises(ExportError, match="a server must fit into a pod") as refused:
        launched(Phase.DECODE, wide)
    assert "target dynamo" in str(refused.value.hint)
    plan = a_plan(Phase.DECODE, wide, "H200", FP8)
    files = render(plan, target="dynamo", engine="trtllm")
    components = [c for d in load_documents(files["00-frontend.yaml"]) for c in d.get("spec", {}).get("components", ())]
    (own,) = (c for c in components if c["name"] == "own")
    assert own["multinode"] == {"nodeCount": 2}
    words = own["podTemplate"]["spec"]["containers"][0]["args"]
    assert words[words.index("--tensor-parallel-size") + 1] == "16"
    assert words[words.index("--expert-parallel-size") + 1] == "16"
    assert words[words.index("--trtllm.enable_attention_dp") + 1] == "true"
    assert not [word for word in words if "{" in word]  # nothing for the operator's shell to quote


def pair_files(target: str) -> dict[str, dict[str, Any]]:
    """The files of the pairing programs, as they read them."""
    found: dict[str, dict[str, Any]] = {}
    for name, text in render(two_range_plan(), target=target, engine="trtllm").items():
        if name.endswith(".pairs"):
            found[name] = next(load_documents(text))
        elif name == "router.yaml":
            data = [d["data"] for d in load_documents(text) if d["kind"] == "ConfigMap"]
            rows = [(key, value) for row in data for key, value in row.items() if key.endswith(".pairs")]
            found |= {key: next(load_documents(value)) for key, value in rows}
    return found


def test_programs_are_looked_at_where_they_answer() -> None:
    """Its /health answers once a server of each phase is there; it has no /readiness, as vLLM's router has."""
    for engine, path in (("trtllm", "/health"), ("vllm", "/readiness")):
        text = render(planned("single nodes", engine), target="kubernetes", engine=engine)["router.yaml"]
        config, *_ = (d["data"]["haproxy.cfg"] for d in load_documents(text) if "haproxy.cfg" in d.get("data", {}))
        behind = config.partition("backend interval-0")[2]
        assert f"option httpchk GET {path}" in behind
        probes = [
            d["spec"]["template"]["spec"]["containers"][0] for d in load_documents(text) if d["kind"] == "Deployment"
        ]
        assert {probe["readinessProbe"]["httpGet"]["path"] for probe in probes} == {"/health", path}


@pytest.mark.parametrize("target", ["lws", "kubernetes", "script"])
def test_pairs_are_made_between_two_doors_of_haproxy(target: str) -> None:
    found = pair_files(target)
    assert len(found) == 2
    for config in found.values():
        (context,), (generation,) = config["context_servers"]["urls"], config["generation_servers"]["urls"]
        assert context != generation
        assert {context.partition(":")[0], generation.partition(":")[0]} == {"two-ranges-router"}
        assert config["context_servers"]["num_instances"] == config["generation_servers"]["num_instances"] == 1
    assert len({config["node_id"] for config in found.values()}) == len(found)


def test_prefixes_are_not_looked_for_in_pairs() -> None:
    plan = planned("single nodes", "trtllm")
    routing = replace(plan.scenario.routing, policy=RouterPolicy.PREFIX_AWARE)
    with pytest.raises(ExportError, match="pairs are made of servers that HAProxy chooses"):
        render(
            replace(plan, scenario=replace(plan.scenario, routing=routing)),
            target="lws",
            engine="trtllm",
            router="haproxy",
        )


def test_an_edited_option_is_a_difference() -> None:
    plan = planned("single nodes", "trtllm")
    files = render(plan, target="kubernetes", engine="trtllm")
    name, text = next((name, text) for name, text in files.items() if "enable_attention_dp" in text)
    spaced = text.replace('"enable_attention_dp": true', '"enable_attention_dp":  true')
    assert spaced != text
    assert compare(files | {name: spaced}, files).faults == ()
    for edit in ('"enable_attention_dp": false', '"enable_attention_dq": true'):
        edited = text.replace('"enable_attention_dp": true', edit)
        assert compare(files | {name: edited}, files).faults, edit


SLO = {"ttft_ms": 6000, "tpot_ms": 200, "percentile": 99}
QUESTION: Mapping[str, Any] = {"model": "deepseek-v3", "workload": "azure-conv-2023", "slo": SLO, "engine": "trtllm"}


def test_plans_keep_to_hosts_unless_the_target_starts_ranks() -> None:
    """Eight H100 hold no DeepSeek-V3, sixteen do."""
    plan = api.plan(inventory={"H200": 16}, progress=False, **QUESTION).record
    assert {i.parallel.devices for i in plan.islands if i.parallel} == {8}
    assert all(min(i.parallel.tp, i.parallel.dp) == 1 for i in plan.islands if i.parallel)
    with pytest.raises(api.InfeasibleError, match="a server must fit into a host of 8 GPUs"):
        api.plan(inventory={"H100": 16}, progress=False, **QUESTION)
    wide = api.plan(inventory={"H100": 16}, deploy={"target": "dynamo"}, progress=False, **QUESTION).record
    assert max(i.parallel.devices for i in wide.islands if i.parallel) > 8
    with pytest.raises(api.InfeasibleError, match="runs on GPUs of NVIDIA alone"):
        api.plan(inventory={"MI300X": 8}, progress=False, **QUESTION)


def test_rates_are_those_of_its_own_runs() -> None:
    """What was measured, and fitted, of TensorRT-LLM stands under its measurements' name for it."""
    sections = {"workload": "normal-500-2000", "inventory": {"H200": 8}, "serving": "aggregated", "progress": False}
    own, other = (api.plan(model="llama-3.1-70b", engine=engine, **sections).record for engine in ("trtllm", "vllm"))
    assert own.scenario.cost.engine == load_engine("trtllm").measured_as == "trt"
    assert other.scenario.cost.engine == load_engine("vllm").measured_as == "vllm"
    assert own.throughput_rps != other.throughput_rps


@pytest.mark.parametrize(
    ("kind", "weights", "block", "taken"),
    [
        ("L40S", WeightFormat.FP8, 0, True),
        ("L40S", WeightFormat.FP8, 128, False),
        ("H20", WeightFormat.FP8, 128, True),
        ("RTX-PRO-6000", WeightFormat.FP8, 128, False),
        ("A100", WeightFormat.FP8, 0, False),
        ("A100", WeightFormat.INT4, 0, True),
        ("DGX-B200", WeightFormat.INT4, 0, False),
        ("H200", WeightFormat.NVFP4, 0, False),
    ],
)
def test_formats_are_those_of_upstreams_matrix(kind: str, weights: WeightFormat, block: int, taken: bool) -> None:
    model = replace(FP8, formats=(weights,), weight_block=block, kv_bytes=2.0)
    context = CostContext(gpu=load_gpu_spec(kind), model=model, settings=CostSettings())
    told = refusals(context, Phase.DECODE, ONES, load_engine("trtllm"))
    assert any(f"loads no {weights} weights" in sentence for sentence in told) is not taken


def test_metrics_are_asked_of_versions_that_have_them() -> None:
    plan = planned("aggregated", "trtllm")
    scenario = plan.scenario
    older, newer = (
        replace(plan, scenario=replace(scenario, engine=load_engine("trtllm", version)))
        for version in ("1.2.1", "1.3.0rc29")
    )
    options_of = ExportOptions(monitoring=True)
    with pytest.raises(InputError, match=r"Metrics of trtllm 1\.2\.1: must be those of 1.3 or later"):
        render(older, target="kubernetes", engine="trtllm", options=options_of)
    files = render(newer, target="kubernetes", engine="trtllm", options=options_of)
    (monitor,) = (d for d in load_documents(files["monitoring.yaml"]) if d["kind"] == "PodMonitor")
    assert {row["path"] for row in monitor["spec"]["podMetricsEndpoints"]} == {"/prometheus/metrics"}
    queries = observe_queries(newer, "trtllm", window="1h")
    assert "trtllm_num_requests_running" in queries["running"]
    assert all("vllm:" not in text and "{}" not in text for text in queries.values())


@pytest.mark.parametrize(
    ("line", "parallel", "model"),
    [
        ("trtllm-serve m --tp_size 8 --pp_size 2", ParallelConfig(tp=8, dp=1, pp=2), "m"),
        ("/usr/local/bin/trtllm-serve serve m --tensor_parallel_size=4", ParallelConfig(tp=4, dp=1), "m"),
        ("trtllm-serve m --tp_size 8 --enable_attention_dp", ONES, "m"),
    ],
)
def test_its_command_line_is_read_for_advice(line: str, parallel: ParallelConfig, model: str) -> None:
    dialect, words = dialect_of(line.split()) or pytest.fail("no engine")
    start = engine_start(dialect, (*words, "--max_batch_size", "64", "--max_num_tokens=4096", "--config", "x.yaml"))
    assert (start.engine, start.parallel, start.model, start.copies) == ("trtllm", parallel, model, 1)
    assert (start.sequences, start.tokens_per_step, start.gaps) == (64, 4096, ())
    assert any("options stand in a file" in note for note in start.notes)


def test_what_pairs_servers_is_none() -> None:
    assert dialect_of(["trtllm-serve", "disaggregated", "-c", "x.pairs"]) is None


def test_gpus_without_a_capability_are_served_by_what_runs_anywhere() -> None:
    unknown = replace(gpu("G"), compute_capability=0.0)
    own = island("own", "G", Phase.MIXED, EIGHT, batch_size=8)
    plan = plan_of(
        (own,), gpus=(unknown,), model=FP8, routing=tuple(route("own", h, 0, 1.0) for h in halves_of(Phase.MIXED))
    )
    (only,) = serving_islands(plan, "p")
    assert options(TRTLLM.launch(only, NOBODY))["moe_config"]["backend"] == "CUTLASS"
