"""Pipeline stages, dense models, overlap, redundant experts and drafted tokens: flags where an engine can, words where
it cannot."""

import json
from dataclasses import replace

import pytest
from export_plans import DENSE, MODEL, UNSHARED, gpu, island, plan_of
from quick_yaml import load_document, load_documents
from test_engine_arguments import an_island, containers, environment, flags, group_of

from planner.domain import PHASES, CostMode, CostSettings, ParallelConfig, Phase, PlannedIsland
from planner.errors import ExportError
from planner.export import render

ENGINES = ("vllm", "sglang")
OVERLAP = {"vllm": "enable-dbo", "sglang": "enable-two-batch-overlap"}


def staged(tp: int, dp: int, pp: int, replicas: int = 1, phase: Phase = Phase.DECODE) -> PlannedIsland:
    return island("H20-x", "H20", phase, ParallelConfig(tp=tp, dp=dp, pp=pp, replicas=replicas))


def comments_of(one: PlannedIsland, engine: str, **changes: object) -> str:
    """Comments of the first file, which is that of `one`."""
    phase = Phase.DECODE if one.phase is Phase.PREFILL else Phase.PREFILL
    stages = one.parallel.pp if one.parallel else 1  # SGLang hands caches over between as many
    partner = island("partner", "H200", phase, ParallelConfig(tp=8, dp=1, pp=stages))
    plan = plan_of((one, partner), gpus=(gpu("H200"), gpu("H20")), **changes)  # type: ignore[arg-type]
    text = next(iter(render(plan, engine=engine).values()))
    return "".join(line for line in text.splitlines(keepends=True) if line.startswith("#"))


# (tp, dp, pp) -> (pods, GPUs a pod): no stage straddles a pod
STAGED = {(8, 1, 2): (2, 8), (4, 4, 2): (4, 8), (1, 8, 4): (4, 8), (1, 6, 2): (2, 6), (1, 24, 2): (6, 8)}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("shape", "expected"), STAGED.items())
def test_pods_of_stages_multiply_out(engine: str, shape: tuple[int, int, int], expected: tuple[int, int]) -> None:
    group = group_of(staged(*shape), engine)
    leader, _ = containers(group)
    assert (group["size"], leader["resources"]["limits"]["nvidia.com/gpu"]) == expected


def test_sglang_counts_the_gpus_of_a_stage() -> None:
    values = flags(containers(group_of(staged(4, 4, 2), "sglang"))[0])
    assert (values["tp-size"], values["pp-size"], values["dp-size"], values["ep-size"]) == ("16", "2", "4", "16")
    assert values["nnodes"] == "4"
    assert "pp-size" not in flags(containers(group_of(an_island(4, 4), "sglang"))[0])


def test_vllm_stages_of_a_rank_lie_side_by_side() -> None:
    leader, worker = containers(group_of(staged(1, 8, 4), "vllm"))
    assert worker is not None
    values = flags(leader)
    assert (values["tensor-parallel-size"], values["pipeline-parallel-size"], values["data-parallel-size"]) == (
        *("1", "4", "8"),
    )
    assert values["data-parallel-size-local"] == "2"
    told = comments_of(staged(1, 8, 4), "vllm")
    assert "NixlConnector" in told
    assert "side by side" in told
    assert "NixlConnector" not in comments_of(staged(1, 8, 4), "sglang")


def test_ranks_that_pods_cannot_hold_are_named() -> None:
    with pytest.raises(
        ExportError, match=r"Island H20-x.*pods of whole ranks.*got 3 GPUs a rank .* and 8 a pod"
    ) as caught:
        group_of(staged(1, 8, 3), "vllm")
    assert "sglang" in caught.value.hint
    assert group_of(staged(1, 8, 3), "sglang")["size"] == 3


def test_throughput_kernels_want_a_stage_on_one_host() -> None:
    prefill = staged(1, 8, 2, phase=Phase.PREFILL)
    assert flags(containers(group_of(prefill, "vllm"))[0])["all2all-backend"] == "allgather_reducescatter"
    assert flags(containers(group_of(prefill, "sglang"))[0])["moe-a2a-backend"] == "deepep"


@pytest.mark.parametrize("engine", ENGINES)
def test_dense_models_have_no_experts_to_place(engine: str) -> None:
    container = containers(group_of(staged(8, 1, 2), engine, model=DENSE))[0]
    words = ("expert", "ep-", "eplb", "all2all", "moe", "deepep", "dbo", "batch-overlap", "data-parallel", "dp-")
    assert not [flag for flag in flags(container) if any(word in flag for word in words)]
    assert "SGLANG_DEEPEP_NUM_MAX_DISPATCH_TOKENS_PER_RANK" not in environment(container)
    told = comments_of(staged(8, 1, 2), engine, model=DENSE)
    assert "experts" not in told.replace("experts'", "experts")
    assert "x 2 stages" in told


@pytest.mark.parametrize("engine", ENGINES)
def test_groups_of_a_dense_model_are_refused(engine: str) -> None:
    with pytest.raises(ExportError, match=r"Island H20-x, parallel.dp: must be 1 for dense-70b"):
        group_of(staged(4, 2, 1), engine, model=DENSE)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("phase", "batch"), [(Phase.DECODE, 64), (Phase.PREFILL, 2)])
def test_overlap_where_the_plan_assumes_it(engine: str, phase: Phase, batch: int) -> None:
    one = an_island(1, 8, phase, batch)
    assert OVERLAP[engine] in flags(containers(group_of(one, engine))[0])
    assert "WARNING" not in comments_of(one, engine)
    for cost in (CostSettings(two_micro_batches=False), CostSettings(mode=CostMode.REFERENCE)):
        assert OVERLAP[engine] not in flags(containers(group_of(one, engine, cost=cost))[0])
        assert "WARNING" not in comments_of(one, engine, cost=cost)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("dp", "batch"), [(12, 64), (8, 2048), (8, 1)])
def test_overlap_that_cannot_be_is_told(engine: str, dp: int, batch: int) -> None:
    one = an_island(1, dp, batch_size=batch)
    assert OVERLAP[engine] not in flags(containers(group_of(one, engine, model=UNSHARED))[0])
    told = comments_of(one, engine, model=UNSHARED)
    assert "WARNING: the plan's rates hide the experts' communication" in told


def test_vllm_overlaps_data_parallel_ranks_only() -> None:
    assert "enable-dbo" not in flags(containers(group_of(an_island(8, 1), "vllm"))[0])
    assert "data-parallel ranks, and here is one" in comments_of(an_island(8, 1), "vllm")
    assert "enable-two-batch-overlap" in flags(containers(group_of(an_island(8, 1), "sglang"))[0])
    assert "WARNING" not in comments_of(an_island(1, 1), "vllm")


@pytest.mark.parametrize(("batch", "threshold"), [(8, "8"), (31, "31"), (32, None)])
def test_vllm_splits_steps_as_small_as_the_plans(batch: int, threshold: str | None) -> None:
    values = flags(containers(group_of(an_island(1, 8, batch_size=batch), "vllm"))[0])
    assert values.get("dbo-decode-token-threshold") == threshold
    short = CostSettings(max_tokens_per_step=256)
    prefill = flags(containers(group_of(an_island(1, 8, Phase.PREFILL, 2), "vllm", cost=short))[0])
    assert prefill["dbo-prefill-token-threshold"] == "256"


@pytest.mark.parametrize(
    ("dp", "asked", "redundant"), [(8, 0, 0), (144, 0, 32), (8, 32, 32), (32, 33, 64), (144, 33, 176)]
)
def test_redundant_experts_are_those_asked_for_filled_up(dp: int, asked: int, redundant: int) -> None:
    cost = CostSettings(redundant_experts=asked)
    vllm = flags(containers(group_of(an_island(1, dp), "vllm", cost=cost))[0])
    sglang = flags(containers(group_of(an_island(1, dp), "sglang", cost=cost))[0])
    found = json.loads(vllm.get("eplb-config", '{"num_redundant_experts": 0}'))["num_redundant_experts"]
    assert found == int(sglang.get("ep-num-redundant-experts", "0")) == redundant >= asked
    assert (MODEL.routed_experts + redundant) % dp == 0
    assert ("enable-eplb" in vllm) is (redundant > 0)
    assert ("enable-eplb" in sglang) is (asked > 0)


def test_redundant_experts_need_neither_deepep_nor_ranks() -> None:
    cost = CostSettings(redundant_experts=8)
    for one in (an_island(8, 1), an_island(1, 12)):
        values = flags(containers(group_of(one, "vllm", cost=cost))[0])
        assert {"enable-eplb", "enable-expert-parallel"} <= set(values)
    reference = replace(cost, mode=CostMode.REFERENCE)
    assert "enable-eplb" not in flags(containers(group_of(an_island(1, 8), "vllm", cost=reference))[0])


@pytest.mark.parametrize("phase", PHASES)
def test_both_phases_draft(phase: Phase) -> None:
    cost = CostSettings(mtp_tokens=3)
    one = an_island(1, 8, phase)
    vllm = flags(containers(group_of(one, "vllm", cost=cost))[0])
    assert json.loads(vllm["speculative-config"]) == {"method": "mtp", "num_speculative_tokens": 3}
    sglang = flags(containers(group_of(one, "sglang", cost=cost))[0])
    assert sglang["speculative-algorithm"] == "EAGLE"
    keys = ("speculative-num-steps", "speculative-eagle-topk", "speculative-num-draft-tokens")
    assert [sglang[key] for key in keys] == ["3", "1", "4"]
    for engine in ENGINES:
        assert not [f for f in flags(containers(group_of(one, engine))[0]) if f.startswith("speculative")]


def test_drafted_tokens_count_in_a_decode_step() -> None:
    cost = CostSettings(mtp_tokens=3)
    vllm = containers(group_of(an_island(1, 8, batch_size=128), "vllm", cost=cost))[0]
    assert flags(vllm)["max-num-batched-tokens"] == "512"
    assert flags(vllm)["max-num-seqs"] == "128"
    sglang = containers(group_of(an_island(1, 8, batch_size=128), "sglang", cost=cost))[0]
    assert environment(sglang)["SGLANG_DEEPEP_NUM_MAX_DISPATCH_TOKENS_PER_RANK"] == "512"
    assert environment(sglang)["NVSHMEM_QP_DEPTH"] == environment(vllm)["NVSHMEM_QP_DEPTH"] == "2048"
    too_many = containers(group_of(an_island(1, 8, batch_size=320), "vllm", cost=cost))[0]
    assert flags(too_many)["all2all-backend"] == "allgather_reducescatter"


@pytest.mark.parametrize("engine", ENGINES)
def test_stages_do_not_draft(engine: str) -> None:
    with pytest.raises(ExportError, match=r"Island H20-x, parallel.pp: must be 1 where tokens are drafted") as caught:
        group_of(staged(8, 1, 2), engine, cost=CostSettings(mtp_tokens=1))
    assert "cost.mtp_tokens 0" in caught.value.hint


@pytest.mark.parametrize("engine", ENGINES)
def test_prefill_copies_are_replicas_with_a_leader_each(engine: str) -> None:
    prefill = island("H20-p", "H20", Phase.PREFILL, ParallelConfig(tp=4, dp=4, replicas=3), batch_size=2)
    decode = island("H20-d", "H20", Phase.DECODE, ParallelConfig(tp=1, dp=8))
    files = render(plan_of((prefill, decode), gpus=(gpu("H20"),)), engine=engine)
    workload = next(iter(load_documents(files["01-h20-p.yaml"])))
    assert (workload["spec"]["replicas"], workload["spec"]["leaderWorkerTemplate"]["size"]) == (3, 2)
    assert "# 3 groups x 2 pods x 8 GPUs = 48 H20." in files["01-h20-p.yaml"]
    table = json.loads(load_document(files["routing.yaml"])["data"]["routing.json"])
    service = next(row for row in table["services"] if row["phase"] == "prefill")
    assert len(set(service["leaders"])) == 3
