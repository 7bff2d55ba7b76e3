"""The `dynamo` target: upstream's CRD, the operator's own rules, and the GlobalRouter's configuration read back by the
rule of its README."""

import re
from typing import Any

import kubernetes_validate
import pytest
from contract_plans import single_node_plan, wide_fleet_plan
from crd_schema import upstream_crds
from dynamo_plans import FIRST, LONG, SHORT, graphs, objects, router_config, two_pool_plan, words
from export_plans import DECODE, SMALL_DECODE, example_plan, gpu, island, plan_of, route
from hypothesis import given
from hypothesis import strategies as st

from planner.domain import PHASES, ParallelConfig, Phase, Plan, PoolGrid, RouterGrid
from planner.errors import ExportError, InconsistentPlanError, InputError
from planner.export import ExportOptions, render
from planner.export.checking import read_manifests
from planner.export.targets.dynamo.engines import started

KUBERNETES = kubernetes_validate.latest_version()


def chosen_pool(config: dict[str, Any], phase: Phase, tokens: int) -> int:
    """The README's rule: step = (max - min) / resolution, index = clamp(int((tokens - min) / step))."""
    name = {Phase.PREFILL: "isl", Phase.DECODE: "context_length"}[phase]
    rows = config[f"{phase}_pool_selection_strategy"]
    step = (rows[f"{name}_max"] - rows[f"{name}_min"]) / rows[f"{name}_resolution"]
    index = max(0, min(int((tokens - rows[f"{name}_min"]) / step), rows[f"{name}_resolution"] - 1))
    pools: list[int] = rows[f"{phase}_pool_mapping"][index]
    assert len(pools) == 1
    return pools[0]


def test_graphs_behind_a_global_router_follow_the_upstream_crd() -> None:
    upstream = upstream_crds("dgd_*")
    files = render(two_pool_plan(), target="dynamo")
    assert [*graphs(files)] == [f"mixed-fleet-{part}" for part in ("ctrl", "p0", "p1", "d0")]
    assert read_manifests(files, upstream).faults == ()
    files[FIRST] = files[FIRST].replace("nodeCount: 2", "nodeCount: 1")
    told = [str(fault) for fault in read_manifests(files, upstream).faults if "given schema" in str(fault)]
    assert len(told) == 1
    assert "spec.components.1.multinode.nodeCount" in told[0]


def test_one_node_has_no_multinode_block() -> None:
    components = graphs(render(two_pool_plan(), target="dynamo"))
    assert "multinode" not in components["mixed-fleet-p1"]["h200-1"]
    assert components["mixed-fleet-d0"]["h20-0"]["multinode"] == {"nodeCount": 4}


def test_degrees_are_words_of_their_own_and_the_operators_flags_are_left_to_it() -> None:
    """The operator reads the word behind `--tensor-parallel-size`, and adds ranks, addresses and ports."""
    prefill = words(graphs(render(two_pool_plan(), target="dynamo"))["mixed-fleet-p0"]["h200-0"])
    assert prefill[prefill.index("--tensor-parallel-size") + 1] == "4"
    assert prefill[prefill.index("--data-parallel-size") + 1] == "4"
    assert prefill[prefill.index("--disaggregation-mode") + 1] == "prefill"
    assert prefill[prefill.index("--model") + 1] == "deepseek-ai/DeepSeek-V3"
    kept = [w for w in prefill if re.match("--(headless|port|nnodes|node-rank|master|data-parallel-(?!size$)|api)", w)]
    assert kept == []
    decode = words(graphs(render(example_plan(), target="dynamo", engine="sglang"))["mixed-fleet"]["h20-0"])
    assert decode[decode.index("--tp-size") + 1] == "32"
    assert not {"--nnodes", "--node-rank", "--dist-init-addr", "--port"} & set(decode)


# what backend_vllm.go and backend_sglang.go add, by hand: TP x PP beyond a pod, TP x PP x DP beyond a pod, neither
@pytest.mark.parametrize(
    ("engine", "arguments", "gpus", "nodes", "added"),
    [
        ("vllm", "--tensor-parallel-size 16", 8, 2, "--nnodes=2"),
        ("vllm", "--tensor-parallel-size 8 --pipeline-parallel-size 2 --data-parallel-size 2", 8, 4, "--nnodes=4"),
        ("vllm", "--tensor-parallel-size 4 --data-parallel-size 4", 8, 2, "--data-parallel-size-local=2"),
        ("vllm", "--tensor-parallel-size 4", 8, 2, ""),
        ("vllm", "--tensor-parallel-size=16", 8, 2, ""),
        ("vllm", "--tensor-parallel-size 8", 8, 1, ""),
        ("sglang", "--tp-size 16", 8, 2, "--nnodes=2"),
    ],
)
def test_the_operators_additions(engine: str, arguments: str, gpus: int, nodes: int, added: str) -> None:
    written = set(started(engine, arguments.split(), gpus, 1))
    assert set(started(engine, arguments.split(), gpus, nodes)) - written == ({added} if added else set())


def test_ranks_that_span_pods_choose_their_executor() -> None:
    wide = island("H200-0", "H200", Phase.PREFILL, ParallelConfig(tp=16, dp=1))
    component = graphs(render(plan_of((wide, DECODE)), target="dynamo"))["mixed-fleet"]["h200-0"]
    key = "nvidia.com/vllm-distributed-executor-backend"
    assert component["podTemplate"]["metadata"]["annotations"][key] == "mp"
    assert component["multinode"] == {"nodeCount": 2}


def test_every_length_goes_to_the_pool_whose_islands_serve_it() -> None:
    files = render(two_pool_plan(), target="dynamo")
    config = router_config(files)
    assert config["prefill_pool_dynamo_namespaces"] == ["default-mixed-fleet-p0", "default-mixed-fleet-p1"]
    assert config["decode_pool_dynamo_namespaces"] == ["default-mixed-fleet-d0"]
    found = {tokens: chosen_pool(config, Phase.PREFILL, tokens) for tokens in (0, 1, 2047, 2048, 4095, 4096, 10**6)}
    assert found == {0: 0, 1: 0, 2047: 0, 2048: 1, 4095: 1, 4096: 1, 10**6: 1}
    assert {chosen_pool(config, Phase.DECODE, tokens) for tokens in range(0, 5000, 100)} == {0}
    assert list(graphs(files)["mixed-fleet-p1"]) == ["router", "h200-1"]


def grid_of_pools(width: int, prefill: tuple[int, ...], decode: tuple[int, ...]) -> RouterGrid:
    """A grid over the islands of `two_pool_plan`."""
    pools = {Phase.PREFILL: ((SHORT.id,), (LONG.id,)), Phase.DECODE: ((DECODE.id,), (SMALL_DECODE.id,))}
    made = {
        phase: PoolGrid(phase=phase, width=width, pools=pools[phase], cells=cells, plan_rps=10.0, grid_rps=9.9)
        for phase, cells in ((Phase.PREFILL, prefill), (Phase.DECODE, decode))
    }
    return RouterGrid(planned_rps=9.0, prefill=made[Phase.PREFILL], decode=made[Phase.DECODE])


def plan_on(grid: RouterGrid) -> Plan:
    """The plan whose routing table is the grid's, every pool having one island."""
    rows = [
        route(grid.phase(phase).pools[pool][0], phase, cell * grid.phase(phase).width, 1.0, grid.phase(phase).width)
        for phase in PHASES
        for cell, pool in enumerate(grid.phase(phase).cells)
    ]
    return two_pool_plan(routing=tuple(rows))


@given(data=st.data(), width=st.integers(1, 20_000), cells=st.integers(2, 12))
def test_the_readmes_rule_is_the_grid_at_every_edge(data: st.DataObject, width: int, cells: int) -> None:
    either = st.lists(st.integers(0, 1), min_size=cells, max_size=cells).map(tuple).filter(lambda c: len(set(c)) == 2)
    grid = grid_of_pools(width, data.draw(either), data.draw(either))
    config = router_config(render(plan_on(grid), target="dynamo", grid=grid))
    for phase in PHASES:
        for cell in range(cells + 1):
            for tokens in (cell * width, cell * width + width - 1):
                assert chosen_pool(config, phase, tokens) == grid.phase(phase).pool_of(tokens)


def test_what_the_grid_costs_is_told_in_comments_and_annotations() -> None:
    grid = grid_of_pools(2048, (0, 1), (1, 0))
    files = render(plan_on(grid), target="dynamo", grid=grid)
    told = "1.0% less, 9.9 of the 10 requests/s of the plan's own table at exact lengths; the plan tells 9"
    assert f"# What the grid does to the rate: {told}.\n" in files["00-frontend.yaml"]
    for graph in objects(files, "DynamoGraphDeployment"):
        rows = {key: value for key, value in graph["metadata"]["annotations"].items() if "grid" in key}
        assert rows == {"planner/grid-cells": "2", "planner/grid-cost": repr(grid.cost)}


def test_a_grid_that_is_not_the_plans_table_never_leaves() -> None:
    plan, other = plan_on(grid_of_pools(2048, (0, 1), (1, 0))), grid_of_pools(2048, (1, 0), (1, 0))
    with pytest.raises(InconsistentPlanError, match="must send prefill of 0 tokens to H200-0 as the routing"):
        render(plan, target="dynamo", grid=other)


def test_sixty_islands_fill_several_graphs_of_one_namespace() -> None:
    for engine in ("vllm", "sglang"):
        found = graphs(render(wide_fleet_plan(), target="dynamo", engine=engine))
        assert [len(components) for components in found.values()] == [25, 25, 11]
        workers = [c for components in found.values() for c in components.values() if c["type"] != "frontend"]
        assert {words(c)[words(c).index("--namespace") + 1] for c in workers} == {"default-wide-fleet"}


def test_a_pool_of_many_islands_keeps_one_router() -> None:
    many = tuple(island(f"H200-{i}", "H200", Phase.PREFILL, ParallelConfig(tp=8, dp=1)) for i in range(31))
    rows = [route(one.id, Phase.PREFILL, 0, 1 / 30) for one in many[:30]]
    rows += [route(many[30].id, Phase.PREFILL, 2048, 1.0)]
    rows += [route(DECODE.id, Phase.DECODE, start, 1.0) for start in (0, 2048)]
    files = render(plan_of((*many, DECODE), routing=tuple(rows)), target="dynamo")
    found = graphs(files)
    assert {name: len(components) for name, components in found.items()} == {
        "mixed-fleet-ctrl": 2,
        "mixed-fleet-p0": 25,
        "mixed-fleet-p0-1": 6,
        "mixed-fleet-p1": 2,
        "mixed-fleet-d0": 2,
    }
    assert "router" not in found["mixed-fleet-p0-1"]
    assert router_config(files)["prefill_pool_dynamo_namespaces"][0] == "default-mixed-fleet-p0"


def test_sglang_needs_one_pool_a_phase() -> None:
    with pytest.raises(ExportError, match=r"written for vLLM alone.*prefill pool 0 \(H200-0\)") as refused:
        render(two_pool_plan(), target="dynamo", engine="sglang")
    assert refused.value.exit_status == 3
    assert list(render(example_plan(), target="dynamo", engine="sglang")) == [
        "00-frontend.yaml",
        "routing.yaml",
        "network-policies.yaml",
        "disruption-budgets.yaml",
    ]


def test_a_table_that_is_no_grid_is_refused() -> None:
    decode = [route(DECODE.id, Phase.DECODE, start, 1.0) for start in (0, 2048)]
    uneven = [route(i, Phase.PREFILL, 0, share) for i, share in ((SHORT.id, 0.5), (LONG.id, 0.5))]
    uneven += [route(i, Phase.PREFILL, 2048, share) for i, share in ((SHORT.id, 0.9), (LONG.id, 0.1))]
    with pytest.raises(ExportError, match="every range of an island shared out alike, which H200-0's are not"):
        render(plan_of((SHORT, LONG, DECODE), routing=(*uneven, *decode)), target="dynamo")
    widths = (route(SHORT.id, Phase.PREFILL, 0, 1.0, 1000), route(LONG.id, Phase.PREFILL, 1000, 1.0, 1048))
    with pytest.raises(ExportError, match="ranges of one width"):
        render(plan_of((SHORT, LONG, DECODE), routing=(*widths, *decode)), target="dynamo")


def test_cells_without_requests_go_with_the_range_above() -> None:
    rows = [route(SHORT.id, Phase.PREFILL, 4096, 1.0), route(LONG.id, Phase.PREFILL, 10240, 1.0)]
    rows += [route(DECODE.id, Phase.DECODE, start, 1.0) for start in (4096, 10240)]
    config = router_config(render(plan_of((SHORT, LONG, DECODE), routing=tuple(rows)), target="dynamo"))
    assert config["prefill_pool_selection_strategy"]["prefill_pool_mapping"] == [[0], [0], [0], [1], [1], [1]]


def test_options_that_no_graph_carries_are_refused() -> None:
    with pytest.raises(ExportError, match="Kueue does not admit"):
        render(two_pool_plan(), target="dynamo", options=ExportOptions(queue="serving"))
    with pytest.raises(ExportError, match=r"topology labels.*H200-0, H20-0"):
        render(two_pool_plan(), target="dynamo", options=ExportOptions(topology_labels=(("asw", "rack"),)))
    files = render(single_node_plan(), target="dynamo", options=ExportOptions(priority_class="serving"))
    assert objects(files, "DynamoGraphDeployment")[0]["spec"]["priorityClassName"] == "serving"


def test_the_kubernetes_namespace_is_in_every_name_that_dynamo_makes_of_it() -> None:
    files = render(two_pool_plan(), target="dynamo", options=ExportOptions(namespace="serving"))
    assert "default" not in files["00-frontend.yaml"]
    assert {g["metadata"]["namespace"] for g in objects(files, "DynamoGraphDeployment")} == {"serving"}
    assert router_config(files)["decode_pool_dynamo_namespaces"] == ["serving-mixed-fleet-d0"]
    for name in ("", "a b", "a.b", "-x", "$(date)", "x" * 64):
        with pytest.raises(InputError, match="namespace: must be a DNS label"):
            render(two_pool_plan(), target="dynamo", options=ExportOptions(namespace=name))


@pytest.mark.parametrize(
    "image", ["registry.example/dynamo:nightly-0707", f"registry.example/dynamo@sha256:{'0' * 64}"]
)
def test_an_image_that_tells_no_version_comes_with_one(image: str) -> None:
    files = render(two_pool_plan(), target="dynamo", options=ExportOptions(images=(("NVIDIA", image),)))
    for components in graphs(files).values():
        assert {component["runtimeVersionOverride"] for component in components.values()} == {"1.6.1"}
    plain = graphs(render(two_pool_plan(), target="dynamo"))["mixed-fleet-p0"]["router"]
    assert "runtimeVersionOverride" not in plain


def test_long_names_keep_to_the_operators_budget() -> None:
    names = [f"a-rather-long-island-name-{i}" for i in range(3)]
    prefill = [island(n, "H200", Phase.PREFILL, ParallelConfig(tp=8, dp=2)) for n in names]
    rows = [route(one.id, Phase.PREFILL, 2048 * i, 1.0) for i, one in enumerate(prefill)]
    rows += [route(DECODE.id, Phase.DECODE, 2048 * i, 1.0) for i in range(3)]
    plan = plan_of((*prefill, DECODE), routing=tuple(rows), name="a plan of an equally long name " * 3)
    for graph, components in graphs(render(plan, target="dynamo")).items():
        for name, component in components.items():
            nodes = component.get("multinode", {}).get("nodeCount", 1)
            assert len(graph) + len(name) + (len(name) + 4 if nodes > 1 else 0) <= 45


def test_amd_gpus_need_an_image_of_their_own() -> None:
    types = (gpu("H200"), gpu("MI308", vendor="AMD", node_selector=(("amd.com/gpu.product-name", "MI308"),)))
    decode = island("MI308-0", "MI308", Phase.DECODE, ParallelConfig(tp=1, dp=8))
    with pytest.raises(ExportError, match="no image is known for AMD"):
        render(plan_of((LONG, decode), gpus=types), target="dynamo")
