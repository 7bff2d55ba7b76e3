"""PodMonitor and recording rules: names that the engines have, promises that are the plan's, edits that are caught."""

import json
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from export_plans import example_plan
from quick_yaml import load_documents
from reference_data import reference_text

from planner.domain import BucketLatency, LoadPoint, Phase, Plan
from planner.errors import ExportError, InputError
from planner.export import ExportOptions, find_faults, island_labels, observe_queries, render
from planner.export.checking import read_manifests
from planner.export.objects.operating.monitoring import FILE, POD_MONITOR, RULE
from planner.export.objects.operating.queries import engine_metrics
from planner.files import load_engine

sys.path.insert(0, str(Path(__file__).parents[1] / "replay"))

from small_plans import small_plan

REGISTERED: dict[str, dict[str, str]] = json.loads(reference_text("prometheus/engine_metrics.json"))
MONITORED = ("lws", "kubernetes", "disaggregatedset")
ON = ExportOptions(monitoring=True)


def split_plan(engine: str = "vllm") -> Plan:
    """Two prefill servers and one of decode, of one GPU type, behind one bucket, as if priced for the engine."""
    plan = small_plan("dense, with levels")
    return replace(plan, scenario=replace(plan.scenario, engine=load_engine(engine)))


def exposed(name: str, kind: str) -> set[str]:
    """The series that a metric is written as."""
    if kind == "histogram":
        return {f"{name}_bucket", f"{name}_sum", f"{name}_count"}
    return {name if name.endswith("_total") else f"{name}_total"} if kind == "counter" else {name}


@pytest.mark.parametrize("version", REGISTERED)
def test_every_metric_asked_for_is_one_that_the_engine_registers(version: str) -> None:
    profile = load_engine(*version.split())
    series = {name for metric, kind in REGISTERED[version].items() for name in exposed(metric, kind)}
    metrics = engine_metrics(profile)
    assert set(metrics.names) <= series
    plan = split_plan()
    plan = replace(plan, scenario=replace(plan.scenario, engine=profile))
    for text in observe_queries(plan, profile.name, window="1h").values():
        names = set(re.findall(rf"{profile.name}:[a-z_]+", text))
        assert names
        assert names <= series


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
@pytest.mark.parametrize("target", MONITORED)
def test_targets_write_it_beside_the_rest(target: str, engine: str) -> None:
    plan = example_plan() if target == "lws" else split_plan(engine)
    files, without = (render(plan, target=target, engine=engine, options=options) for options in (ON, ExportOptions()))
    assert set(files) - set(without) == {FILE}
    assert {name: files[name] for name in without} == without
    kinds = [body["kind"] for body in load_documents(files[FILE])]
    assert kinds == [POD_MONITOR, RULE]
    assert find_faults(files) == ()


@pytest.mark.parametrize("target", ["llm-d", "kserve", "dynamo", "kueue", "script"])
def test_targets_that_cannot_carry_it_refuse_by_name(target: str) -> None:
    with pytest.raises(ExportError, match=r"nothing in its files can carry .*monitoring"):
        render(split_plan(), target=target, options=ON)


def test_sglang_is_started_with_its_metrics_on() -> None:
    for engine, flagged in (("sglang", True), ("vllm", False)):
        files = render(split_plan(engine), target="kubernetes")
        texts = [text for name, text in files.items() if name[:1].isdigit()]
        assert texts
        assert all(("--enable-metrics" in text) == flagged for text in texts)


def rules(plan: Plan) -> dict[tuple[Any, ...], str]:
    """Expressions by record and labels."""
    text = render(plan, target="lws", options=ON)[FILE]
    groups = list(load_documents(text))[1]["spec"]["groups"]
    rows = [row for group in groups for row in group["rules"]]
    keyed = {(row["record"], *sorted(row.get("labels", {}).items())): row["expr"] for row in rows}
    assert len(keyed) == len(rows)
    return keyed


def bucket_key(record: str, row: BucketLatency, quantile: str, **more: str) -> tuple[Any, ...]:
    labels = {
        "planner_plan": "small",
        "planner_phase": row.phase.value,
        "planner_bucket": f"{row.start}-{row.end - 1}",
        "quantile": quantile,
        **more,
    }
    return (record, *sorted(labels.items()))


def test_promises_are_the_plans() -> None:
    plan = split_plan()
    keyed = rules(plan)
    checked = 0
    for row in plan.buckets.latencies:
        stem = "ttft" if row.phase is Phase.PREFILL else "tpot"
        for quantile, ms in (("0.5", row.p50_ms), ("0.9", row.late_ms)):
            key = bucket_key(f"planner:promised_{stem}_seconds", row, quantile, load=row.load.value)
            assert (key in keyed) == (row.load is not LoadPoint.CAPACITY and ms is not None)
            if key in keyed and ms is not None:
                number = float(keyed[key].removeprefix("vector(").removesuffix(")"))
                assert number == pytest.approx(ms / 1000, rel=1e-5)
                checked += 1
    assert checked >= 4
    for island in plan.islands:
        label = next(label for label, name in island_labels(plan).items() if name == island.id)
        key = ("planner:promised_requests:rate", ("planner_island", label), ("planner_plan", "small"))
        at_promise = island.rate_rps * plan.buckets.promise_rps / plan.throughput_rps
        assert float(keyed[key].removeprefix("vector(").removesuffix(")")) == pytest.approx(at_promise, rel=1e-5)


def test_ttft_is_taken_where_each_engine_tells_it() -> None:
    plan = split_plan()
    assert plan.buckets is not None
    row = next(r for r in plan.buckets.latencies if r.phase is Phase.PREFILL and r.load is LoadPoint.PROMISE)
    key = bucket_key("planner:bucket_ttft_seconds", row, "0.9")
    labels = {island: label for label, island in island_labels(plan).items()}
    names = {island.phase: labels[island.id] for island in plan.islands}
    vllm, sglang = rules(plan)[key], rules(split_plan("sglang"))[key]
    first, later = vllm.split(" + ")
    assert f'"{names[Phase.PREFILL]}"' in first
    assert names[Phase.PREFILL] not in later
    assert names[Phase.DECODE] in later
    assert f'"{names[Phase.DECODE]}"' in sglang
    assert names[Phase.PREFILL] not in sglang


def test_monitors_of_others_are_none_of_ours() -> None:
    theirs = {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PodMonitor",
        "metadata": {"name": "theirs"},
        "spec": {"anything": True},
    }
    service = {**theirs, "kind": "ServiceMonitor"}
    files = render(split_plan(), target="kubernetes")
    more = {**files, "theirs.yaml": yaml.safe_dump_all([theirs, service])}
    assert find_faults(more, split_plan()) == ()
    assert [manifest.kind for manifest in read_manifests(more).foreign] == ["PodMonitor", "ServiceMonitor"]


def test_plans_without_buckets_promise_rates_alone() -> None:
    records = {key[0] for key in rules(example_plan())}
    assert "planner:promised_requests:rate" in records
    assert not any("bucket" in record and "promise" in record for record in records)


@pytest.mark.parametrize("window", ["", "1h", "90s"])
def test_queries_name_the_plan(window: str) -> None:
    queries = observe_queries(split_plan(), "vllm", "my plan", window)
    assert len(queries) == (13 if window else 1)
    assert all('"my-plan"' in text for text in queries.values())


@pytest.mark.parametrize("window", ["1", "h", "1h]) or vector(1", "0m", "1y"])
def test_windows_are_times(window: str) -> None:
    with pytest.raises(InputError, match="--window: must be a time"):
        observe_queries(split_plan(), "vllm", window=window)
