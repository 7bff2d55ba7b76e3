"""Another version of the engine, another checkpoint: rolled in lanes that hand caches to themselves alone."""

import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from changed_plans import SMALL, small_plan

from planner import export, pipeline
from planner.domain import Phase, Plan
from planner.domain.rollouts import ServerCounts
from planner.errors import ExportError, InfeasibleError, InputError
from planner.evaluation.buckets.service import BucketService
from planner.export.checking.carrying import carried_over, running_engines
from planner.export.routers.intervals_served import served_intervals
from planner.files import scenario_from_document
from planner.files.scenario.settings import read_setting
from planner.replanning.finding import require_engine
from planner.replanning.rollouts.interim import InterimFleet, InterimPlans, full_question
from planner.runs.deployments import render_plan
from planner.runs.replanning.asking import ChangedPlan, ChangeQuestion, change_plan, publish_change
from planner.runs.replanning.inputs import deployed_manifests, new_scenario
from planner.workload import summarize

OLD, NEW = "0.18.0", "0.33.0"


@cache
def old_plan() -> Plan:
    document = {**SMALL, "engine": {"name": "vllm", "version": OLD}, "inventory": {"H20": 96, "H200": 64, "H800": 64}}
    return pipeline.plan(scenario_from_document(document, origin="small", base=Path.cwd(), summarize=summarize))


@cache
def upgraded(*settings: str, least_share: float = 0.7) -> ChangedPlan:
    scenario = new_scenario(old_plan(), settings=tuple(map(read_setting, settings)))
    return change_plan(old_plan(), ChangeQuestion(scenario=scenario, least_share=least_share))


def to_new() -> ChangedPlan:
    return upgraded(f"engine.version={NEW}")


def of(plan: Plan, counts: ServerCounts) -> ServerCounts:
    return tuple((name, count) for name, count in counts if name in {pool.island for pool in plan.outlook.pools})


def serving(changed: ChangedPlan, counts: ServerCounts) -> tuple[str, ...]:
    """The lanes that serve."""
    plans = InterimPlans(changed.before, changed.plan)
    return tuple(row.name for row in plans.serving(counts, new_table=True))


def test_every_step_leaves_the_share_and_is_replayed() -> None:
    changed = to_new()
    assert changed.plan.scenario.engine.version == NEW
    assert changed.roll_out.steps
    assert changed.roll_out.holds is True
    assert changed.roll_out.reached_share >= 0.7
    assert not any(row.kind.runs_on for row in changed.change.changes)


def test_lanes_add_up_and_each_is_priced_by_its_own_version() -> None:
    """What serves of either version is worth what a plan of it alone is worth, on its own plan's question."""
    changed = to_new()
    fleet = InterimFleet(changed.before, changed.plan)
    for step in changed.roll_out.steps:
        alone = 0.0
        for plan in (changed.before, changed.plan):
            counts = dict(of(plan, step.during))
            pools = [replace(p, count=counts[p.island]) for p in plan.outlook.pools if p.island in counts]
            phases = {half for pool in pools for half in Phase if pool.serves(half)}
            if phases >= {Phase.PREFILL, Phase.DECODE}:
                alone += BucketService(full_question(plan)).priced(pools).rate_rps
        assert fleet.exact_rps(dict(step.during), new_table=step.new_table) == pytest.approx(alone)
        assert step.during_rps == pytest.approx(alone)


def test_prefill_of_one_version_never_hands_caches_to_decode_of_the_other() -> None:
    changed = to_new()
    plans = InterimPlans(changed.before, changed.plan)
    old = {pool.island for pool in changed.before.outlook.pools}
    mixed = 0
    for step in changed.roll_out.steps:
        plan = plans.plan(step.during, new_table=step.new_table)
        rows = served_intervals(plan)
        for row in rows:
            sides = {name in old for name in (*row.prefill, *row.decode)}
            assert len(sides) == 1
            assert row.prefill
            assert row.decode
        mixed += len(rows) > 1
        for phase in (Phase.PREFILL, Phase.DECODE):
            assert sum(r.share for r in plan.routing if r.phase is phase) == pytest.approx(1.0)
    assert mixed


def test_a_lane_gets_the_share_that_it_serves() -> None:
    """By HAProxy's rule of chance, as by the routes."""
    changed = to_new()
    plans, fleet = InterimPlans(changed.before, changed.plan), InterimFleet(changed.before, changed.plan)
    deployed = deployed_manifests(old_plan(), target="lws").files
    step = next(step for step in changed.roll_out.steps if len(serving(changed, step.during)) > 1)
    plan = plans.plan(step.during, new_table=step.new_table)
    rates = [fleet.exact_rps(dict(of(p, step.during)), new_table=True) for p in (changed.plan, changed.before)]
    first, last = served_intervals(plan)
    assert (first.start, first.end) == (last.start, last.end)
    assert first.chance == pytest.approx(rates[0] / sum(rates))
    assert last.chance == 1.0
    running = running_engines(deployed)
    files = carried_over(render_plan(plan, target="lws", running=running).files, deployed)
    text = "".join(files.values())
    (chance,) = set(re.findall(r"use_backend interval-0 if \{ rand\(1000000\) lt (\d+) \}", text))
    assert int(chance) == round(1e6 * first.chance)
    assert export.find_faults(files, plan) == ()


def test_steps_start_the_new_image_and_leave_the_old_one_alone() -> None:
    changed = to_new()
    stands = deployed_manifests(old_plan(), target="lws")
    written = publish_change(changed, deployed=stands.files, target="lws", engine="vllm").files
    for path, content in written.items():
        if path.startswith("steps/") and path.endswith(("3-start.yaml", "2-stop.yaml")):
            versions = set(re.findall(r"vllm-openai:v([\d.]+)", content.decode()))
            assert versions == {NEW if "start" in path.rpartition("/")[2] else OLD}
    assert not any("NOT-WRITTEN" in path for path in written)
    last = b"".join(content for path, content in written.items() if path.startswith("manifests/"))
    assert b"rand(" not in last


def test_a_router_that_pairs_anyone_is_refused_for_the_steps() -> None:
    changed = to_new()
    step = next(step for step in changed.roll_out.steps if len(serving(changed, step.during)) > 1)
    plan = InterimPlans(changed.before, changed.plan).plan(step.during, new_table=step.new_table)
    apart = r"must keep engines of vllm 0\.18\.0 and of the new plan apart, as "
    with pytest.raises(ExportError, match=apart + "neither takes the other's KV caches"):
        render_plan(plan, target="lws", router="none")
    both_phases = replace(plan, islands=tuple(replace(island, phase=Phase.MIXED) for island in plan.islands))
    with pytest.raises(ExportError, match=apart + "each takes the share that it is priced for"):
        render_plan(both_phases, target="lws", router="none")


def test_another_checkpoint_takes_the_place_where_it_answers_to_the_name() -> None:
    changed = upgraded("model=deepseek-r1", "deploy.served_names=[deepseek-ai/DeepSeek-V3]")
    assert changed.plan.scenario.model.name == "deepseek-r1"
    assert changed.roll_out.reached_share >= 0.7
    with pytest.raises(InputError, match="or answer to its name") as bad:
        upgraded("model=deepseek-r1")
    assert "deploy.served_names=[deepseek-ai/DeepSeek-V3]" in bad.value.hint


def test_more_than_lanes_can_leave_is_refused_with_what_they_can() -> None:
    with pytest.raises(InfeasibleError, match=r"at best \d+\.\d% can be left") as bad:
        upgraded(f"engine.version={NEW}", least_share=0.999)
    assert bad.value.hint.startswith("Give --least-share 0.")
    assert "--most-gpus" not in bad.value.hint  # every server of an upgrade starts anew


def test_who_goes_from_plan_to_plan_upgrades_nothing() -> None:
    """A watch or a schedule has one version; what upgrades is named."""
    old = old_plan().scenario
    new = new_scenario(old_plan(), settings=(read_setting(f"engine.version={NEW}"),))
    with pytest.raises(InputError, match=rf"must be that of the plan that runs, vllm {OLD}, got vllm {NEW}") as bad:
        require_engine(old, new)
    assert bad.value.hint == "Name the plan's version, or upgrade the plan first (planner replan)."
    with pytest.raises(InputError) as bad:
        require_engine(old, replace(new, engine=replace(new.engine, name="sglang")))
    assert bad.value.hint.startswith("Another engine runs no server on")


def test_the_same_version_is_one_lane() -> None:
    plan = small_plan()
    fleet = InterimFleet(plan, plan)
    assert len(fleet.lanes) == 1
    assert {
        island.lane
        for island in InterimPlans(plan, plan)
        .plan(tuple((pool.island, pool.count) for pool in plan.outlook.pools), new_table=True)
        .islands
    } == {""}
