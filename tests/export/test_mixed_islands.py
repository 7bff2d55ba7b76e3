"""Islands that do both phases: engines that hand no KV cache over, objects without sidecar, role or mode, a table that
sends both phases to one Service; what cannot be expressed so is refused."""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from contract_plans import MIXED, WIDE_MIXED, aggregated_plan, beside_plan, planned
from dynamo_plans import graphs, words
from export_plans import plan_of, route

from planner.domain import PHASES, CostSettings, DeployedPlan, Phase, Plan
from planner.domain.deployed import IslandFate
from planner.errors import ExportError
from planner.export import TARGETS, read_manifests, read_plan, read_server, render
from planner.export.engines.arguments import read_flags
from planner.export.found import FoundWorkload
from planner.files import load_engine
from planner.plans.diff import compare
from planner.runs.deployments import render_plan

PAIRS = [
    (target, engine)
    for target in ("lws", "llm-d", "kserve", "script", "kubernetes", "dynamo")
    for engine in TARGETS[target].engines
]
NODE_PAIRS = [pair for pair in PAIRS if pair[0] in ("lws", "llm-d", "kserve", "script")]
HAND_OVER = re.compile(r"kv-transfer-config|disaggregation-|NIXL|kv_connector|cache_transceiver")


def of_plan(target: str, engine: str) -> Plan:
    """The plan that the target is shown with: those of single nodes take one without wide islands, and so do engines
    whose servers keep to a host."""
    narrow = target in ("kubernetes", "dynamo") or not load_engine(engine).spans_hosts
    return planned("aggregated" if narrow else "beside", engine)


def mixed_workloads(files: Mapping[str, str]) -> list[FoundWorkload]:
    """The workloads of islands that do both phases."""
    sound = read_manifests(files).sound
    every = [w for manifest, kind in sound if kind and kind.workloads for w in kind.workloads(manifest)]
    return [workload for workload in every if workload.labels["planner/phase"] == "mixed"]


def flags_of(files: Mapping[str, str], island: str) -> dict[str, str]:
    """The flags that the leader of an island starts with."""
    (workload,) = (w for w in mixed_workloads(files) if w.annotations["planner/island-id"] == island)
    return read_flags(workload.pods[0].arguments or ())


@pytest.mark.parametrize(("target", "engine"), PAIRS)
def test_nothing_of_a_mixed_island_hands_caches_over(target: str, engine: str) -> None:
    found = mixed_workloads(render(of_plan(target, engine), target=target, engine=engine))
    assert {w.annotations["planner/island-id"] for w in found} >= {MIXED.id}
    for workload in found:
        for pod in workload.pods:
            told = f"{pod.arguments} {pod.spec['containers']} {pod.spec.get('initContainers', ())}"
            assert not HAND_OVER.search(told), told
            assert "sidecar" not in told


@pytest.mark.parametrize(("target", "engine"), NODE_PAIRS)
def test_a_mixed_server_is_read_back_from_its_flags(target: str, engine: str) -> None:
    plan = of_plan(target, engine)
    budget = plan.scenario.cost.max_tokens_per_step
    for workload in mixed_workloads(render(plan, target=target, engine=engine)):
        island = next(i for i in plan.islands if i.id == workload.annotations["planner/island-id"])
        assert island.parallel is not None
        arguments = [word for word in workload.pods[0].arguments or () if word.startswith(("--", "{"))]
        server = read_server(engine, arguments, Phase.MIXED)
        assert server.parallel == replace(island.parallel, replicas=1)
        assert (server.batch_size, server.tokens_per_step) == (island.batch_size, budget)


def test_vllm_takes_the_exchange_that_suits_every_pass() -> None:
    files = render(beside_plan(), target="lws", engine="vllm")
    for island in (MIXED, WIDE_MIXED):
        assert flags_of(files, island.id)["all2all-backend"] == "allgather_reducescatter"
    assert "all-gather sends every token to all GPUs" in files["04-h200-9.yaml"]
    assert "all-gather sends every token to all GPUs" not in files["03-h20-9.yaml"]
    assert "high throughput runs without CUDA graphs" in files["03-h20-9.yaml"]
    assert "NVSHMEM" not in files["03-h20-9.yaml"] + files["04-h200-9.yaml"]


def test_sglang_chooses_the_kernels_pass_by_pass_and_mixes_chunks() -> None:
    flags = flags_of(render(beside_plan(), target="lws", engine="sglang"), MIXED.id)
    assert flags["deepep-mode"] == "auto"
    assert "enable-mixed-chunk" in flags
    assert flags["max-running-requests"] == str(16 * 2)
    assert flags["chunked-prefill-size"] == str(2 * int(flags["max-prefill-tokens"]))
    assert "prefill-max-requests" not in flags


def test_sglang_mixes_no_chunks_where_it_drafts() -> None:
    plan = beside_plan()
    drafting = replace(plan, scenario=replace(plan.scenario, cost=CostSettings(mtp_tokens=1)))
    files = render(drafting, target="lws", engine="sglang")
    assert "enable-mixed-chunk" not in flags_of(files, MIXED.id)
    assert "SGLang takes all of them in apart" in files["03-h20-9.yaml"].replace("\n# ", " ")


def test_llm_d_gives_a_mixed_island_a_release_without_sidecar() -> None:
    values = yaml.safe_load(render(beside_plan(), target="llm-d")["02.values.yaml"])
    assert values["routing"] == {"servicePort": 8000, "proxy": {"enabled": False}}
    assert values["prefill"] == {"create": False, "replicas": 0}
    assert "--port=8000" in values["decode"]["containers"][0]["args"]


def test_kserve_gives_a_mixed_island_an_object_without_prefill() -> None:
    files = render(beside_plan(), target="kserve")
    assert "prefill" not in yaml.safe_load(files["02.yaml"])["spec"]
    services = list(yaml.safe_load_all(files["services.yaml"]))
    roles = {(s["metadata"]["labels"]["planner/phase"], s["spec"]["selector"]["llm-d.ai/role"]) for s in services}
    assert roles == {("prefill", "prefill"), ("decode", "decode"), ("mixed", "both")}
    assert "{{" not in files["02.yaml"]


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_dynamos_mixed_workers_are_aggregated_ones(engine: str) -> None:
    rendered = render_plan(aggregated_plan(), target="dynamo", engine=engine)
    assert rendered.grid is None
    ((_, components),) = graphs(rendered.files).items()
    workers = {name: component for name, component in components.items() if name != "frontend"}
    assert {component["type"] for component in workers.values()} == {"worker"}
    assert not any("--disaggregation-mode" in words(component) for component in workers.values())


def test_an_island_that_gives_up_a_phase_restarts() -> None:
    before = read_plan(render(beside_plan(), target="lws", engine="vllm"))
    islands = tuple(replace(i, phase=Phase.DECODE) if i.id == MIXED.id else i for i in before.islands)
    after: DeployedPlan = replace(before, islands=islands)
    changes = {change.old.id: change for change in compare(before, after).islands if change.old}
    assert changes[MIXED.id].fate is IslandFate.RESTARTED
    assert [(c.field, c.old, c.new) for c in changes[MIXED.id].changes] == [("phase", "mixed", "decode")]


def both(table: dict[str, Any]) -> None:
    """A row for both phases at once, which no reader of the table knows."""
    table["routes"][0]["phase"] = "mixed"


WORD, PORT, TENSOR = 10 * " ", "- --port=8000", "- --tensor-parallel-size"


def two_bucket_plan() -> Plan:
    """Mixed islands, each with lengths of its own."""
    other = replace(MIXED, id="H200-8", gpu="H200")
    rows = [route(one.id, phase, start, 1.0) for phase in PHASES for one, start in ((MIXED, 0), (other, 2048))]
    return plan_of((MIXED, other), name="two-buckets", routing=tuple(rows))


REFUSED = [
    ("disaggregatedset", beside_plan, "H20-9"),
    ("disaggregatedset", aggregated_plan, "H20-9"),
    ("dynamo", beside_plan, "H200-0, H20-0 beside it"),
    ("dynamo", two_bucket_plan, "2 buckets of lengths"),
]


@pytest.mark.parametrize(("target", "make", "told"), REFUSED)
def test_what_a_target_cannot_express_is_refused(
    target: str, make: Callable[[], Plan], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from typer.testing import CliRunner

    from planner import files, pipeline
    from planner.cli.app import build

    plan = make()
    with pytest.raises(ExportError) as refusal:
        render_plan(plan, target=target)
    assert f"plan {plan.scenario.name}" in refusal.value.message
    assert MIXED.id in refusal.value.message
    assert told in refusal.value.message
    assert "Export for lws" in refusal.value.hint
    assert "serving: split" in refusal.value.hint
    monkeypatch.setattr(files, "load_run", lambda _: plan)
    monkeypatch.setattr(pipeline, "recheck", lambda plan, _: plan)
    out = tmp_path / "out"
    result = CliRunner().invoke(build(), ["export", "run", "--target", target, "--out", str(out)])
    assert getattr(result.exception, "exit_status", result.exit_code) == 3
    assert not out.exists()
