"""What replaces pods and what does not: a controller starts pods anew where their template changes, and only there; and
two exports compared tell just that."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from contract_plans import as_run, placed_plan, single_node_plan
from export_plans import PREFILL
from quick_yaml import load_documents

from planner.domain import Plan
from planner.domain.deployed import PlanDiff
from planner.errors import ExportError
from planner.export import TARGETS, ExportOptions, read_plan, render, summarize_plan
from planner.plans.diff import compare
from planner.report.comparison.changes import diff_document
from planner.report.comparison.plan_diff import diff_page
from planner.report.kit.markdown import page_text


def diff_text(diff: PlanDiff) -> str:
    return page_text(diff_page(diff))


TEMPLATES = ("template", "podTemplate", "leaderWorkerTemplate", "podAnnotations")
"""Keys of what a controller makes pods of, in Deployments, LeaderWorkerSets, Dynamo's graphs and KServe's services."""
SERVING = [name for name, target in TARGETS.items() if any(kind.workloads for kind in target.kinds)]
CLUSTER = [name for name in SERVING if TARGETS[name].applied]
PAIRS = [(name, engine) for name in CLUSTER for engine in TARGETS[name].engines]


def pod_parts(files: dict[str, str]) -> list[Any]:
    """Templates, wherever they lie; the labels and annotations that KServe puts on a role's pods; what the chart makes
    pods of."""
    documents = [d for name, text in files.items() if name.endswith(".yaml") for d in load_documents(text)]
    found = list(_below(documents))
    for spec in (d["spec"] for d in documents if d.get("kind") == "LLMInferenceService"):
        found += [role.get(key) for role in (spec, spec["prefill"]) for key in ("labels", "annotations")]
    for values in (d for d in documents if "fullnameOverride" in d):
        roles = (values[role] for role in ("prefill", "decode"))
        found += [{k: v for k, v in role.items() if k not in ("replicas", "annotations")} for role in roles]
    return found


def _below(value: Any) -> Iterator[Any]:
    rows = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in rows:
        if key in TEMPLATES:
            yield inner
        else:
            yield from _below(inner)


def dearer() -> Plan:
    """The plan at other prices, rates and loads."""
    plan = single_node_plan()
    islands = tuple(
        replace(i, rate_rps=i.rate_rps * 1.1, utilisation=i.utilisation * 0.9, price_usd_per_hour=77.5)
        for i in plan.islands
    )
    return replace(plan, islands=islands)


def scaled() -> Plan:
    """The plan with a copy less of the island that has three."""
    plan = single_node_plan()
    islands = tuple(
        replace(i, size=i.size // 3 * 2, parallel=replace(i.parallel, replicas=2))
        if i.parallel and i.parallel.replicas == 3
        else i
        for i in plan.islands
    )
    return replace(plan, islands=islands)


@pytest.mark.parametrize("changed", [dearer, scaled])
@pytest.mark.parametrize(("target", "engine"), PAIRS)
def test_prices_rates_and_copies_replace_no_pod(target: str, engine: str, changed: Any) -> None:
    # a router that names servers is told of a copy less, so without one
    plans = [as_run(plan, engine) for plan in (single_node_plan(), changed())]
    before, after = (render(plan, target=target, engine=engine, router="none") for plan in plans)
    assert before != after
    assert len(pod_parts(before)) >= 3
    assert pod_parts(after) == pod_parts(before)


def between(old: dict[str, str], new: dict[str, str]) -> PlanDiff:
    """What applying `new` over `old` changes."""
    return compare(read_plan(old), read_plan(new))


def fates(diff: PlanDiff) -> dict[str, str]:
    """Island -> what happens to it."""
    return {change.id: change.fate.value for change in diff.islands}


@pytest.mark.parametrize("target", SERVING)
def test_other_prices_change_nothing_and_a_copy_less_scales_one(target: str) -> None:
    before = render(single_node_plan(), target=target)
    same = between(before, render(dearer(), target=target))
    assert (same.differs, same.pods_compared) == (False, True)
    assert diff_text(same).endswith("every request where it was.\n")
    less = between(before, render(scaled(), target=target))
    assert fates(less) == {"H200-0": "unchanged", "H20-0": "scaled", "H20-1": "unchanged"}


OPTIONS = {
    "image": (ExportOptions(images=(("NVIDIA", "example/engine:v9.9.9"),)), ".image", ("ray",)),
    "cores": (ExportOptions(cpus_per_gpu=3), ".cpu", ("script",)),  # of slurm the job has them
    "resource": (ExportOptions(pod_resources=(("rdma/ib", 8),)), ".rdma/ib", ("script", "slurm", "ray")),
    "class": (ExportOptions(priority_class="high"), "priorityClassName", ("script", "slurm", "ray")),
    "queue": (ExportOptions(queue="research"), "queue-name", ("script", "slurm", "ray", "dynamo")),
    "name": (ExportOptions(name="other"), "object", ()),
}


@pytest.mark.parametrize("what", OPTIONS)
@pytest.mark.parametrize("target", SERVING)
def test_another_export_of_the_same_plan_restarts_its_islands(target: str, what: str) -> None:
    options, field, refused = OPTIONS[what]
    before = render(single_node_plan(), target=target)
    if target in refused:
        with pytest.raises(ExportError):
            render(single_node_plan(), target=target, options=options)
        return
    diff = between(before, render(single_node_plan(), target=target, options=options))
    if (target, what) == ("slurm", "cores"):
        assert fates(diff) == dict.fromkeys(fates(diff), "unchanged")
        return
    assert set(fates(diff).values()) == {"restarted"}
    for change in diff.islands:
        assert change.changes == ()
        here = ".fullnameOverride" if (target, field) == ("llm-d", "object") else field
        assert any(here.casefold() in f".{one.field}".casefold() for one in change.pods)
    assert {c.gpu: (c.started, c.stopped) for c in diff.gpus} == {"H200": (16, 16), "H20": (32, 32)}
    page, document = diff_text(diff), diff_document(diff)
    assert ("Nothing changes" in page, document["differs"]) == (False, True)
    assert all(island["pods"] for island in document["islands"])


def test_an_image_is_told_by_its_names() -> None:
    options = ExportOptions(images=(("NVIDIA", "example/engine:v9.9.9"),))
    diff = between(render(single_node_plan()), render(single_node_plan(), options=options))
    for change in diff.islands:
        (only,) = change.pods
        assert (only.field, only.new) == (
            "leaderWorkerTemplate.workerTemplate.spec.containers.engine.image",
            "example/engine:v9.9.9",
        )
        assert only.old.startswith("vllm/vllm-openai:")


def test_of_a_set_of_roles_all_roll_out_where_one_changes() -> None:
    """DisaggregatedSet: the revision hashes the templates of all roles. Other targets leave the others alone."""
    plan = single_node_plan()
    batch = tuple(replace(i, batch_size=4) if i.id == "H20-1" else i for i in plan.islands)
    other = replace(plan, islands=batch)
    for target in ("lws", "disaggregatedset"):
        found = fates(between(render(plan, target=target), render(other, target=target)))
        rest = "restarted" if target == "disaggregatedset" else "unchanged"
        assert found == {"H200-0": rest, "H20-0": rest, "H20-1": "restarted"}


def moved() -> Plan:
    """The placed plan with one of the prefill nodes exchanged."""
    plan = placed_plan()
    assert plan.placement is not None
    parts = tuple(
        replace(part, node="d9") if part.island == PREFILL.id and part.node == "h3" else part
        for part in plan.placement.parts
    )
    return replace(plan, placement=replace(plan.placement, parts=parts))


def test_other_nodes_restart_what_is_pinned_to_them() -> None:
    pinned = ExportOptions(pin_nodes=True)
    diff = between(render(placed_plan(), options=pinned), render(moved(), options=pinned))
    assert fates(diff) == {"H200-0": "restarted", "H20-0": "unchanged"}
    free = between(render(placed_plan()), render(moved()))
    assert not free.differs  # the scheduler chooses


def test_plans_on_other_nodes_are_told_without_manifests() -> None:
    diff = compare(summarize_plan(placed_plan()), summarize_plan(moved()))
    assert fates(diff) == {"H200-0": "restarted", "H20-0": "unchanged"}
    assert [(one.field, one.old, one.new) for change in diff.islands for one in change.pods] == [
        ("nodes", "h0, h1, h2, h3", "d9, h0, h1, h2")
    ]
    assert not diff.pods_compared
    assert "Pods are not compared" in diff_text(diff)
    assert "Pods are not compared" in diff_text(compare(summarize_plan(placed_plan()), summarize_plan(placed_plan())))
