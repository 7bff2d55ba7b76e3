"""Plans near the one that runs: what stays, what it costs, what more change would give, and what is refused."""

import json
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import jsonschema
import pytest
from replanned_scenarios import LEVELS, longer, small_plan, small_scenario

from planner.domain import BucketPool, Inventory, ObjectiveKind, ObjectiveSettings, Phase, Plan, Scenario, ServingForm
from planner.domain.changes import ChangeKind, ChangeLimits, ChangeSettings, LostServers
from planner.domain.rollouts import Replan
from planner.errors import InfeasibleError, InputError
from planner.evaluation.buckets.service import BucketService
from planner.files import encode_plan, load_run, load_scenario, plan_schema, shipped_scenarios
from planner.pipeline import plan, recheck, replan
from planner.replanning.changes import changes_between
from planner.workload import question_of, summarize

CURRENT_SHARE = 0.95
TURNS = ChangeLimits(turns_only=True)


@pytest.fixture(scope="module")
def deployed() -> Plan:
    return small_plan(slo=LEVELS)


@pytest.fixture(scope="module")
def shifted(deployed: Plan) -> Replan:
    """Prompts and answers 30 % longer, the longest as before."""
    return replan(deployed, longer(deployed.scenario, 1.3))


@pytest.fixture(scope="module")
def much_longer(deployed: Plan) -> Replan:
    """Prompts and answers three times as long, the longest too: no engine takes all of them."""
    return replan(deployed, longer(deployed.scenario, 3, clipped=False))


def bucket_pools(plan: Plan) -> tuple[BucketPool, ...]:
    return plan.buckets.pools


def test_the_same_workload_touches_nothing(deployed: Plan) -> None:
    again = replan(deployed, deployed.scenario)
    assert again.change.gpus_touched == 0
    assert {row.kind for row in again.change.changes} == {ChangeKind.KEEP}
    assert bucket_pools(again.plan) == bucket_pools(deployed)
    assert again.plan.throughput_rps == pytest.approx(deployed.throughput_rps)
    assert again.plan.certificate == deployed.certificate or again.plan.certificate is not None


def test_a_shift_keeps_most_servers_and_most_of_the_rate(shifted: Replan) -> None:
    assert shifted.change.running_on_share >= 0.8
    assert shifted.scratch_rps is not None
    assert shifted.plan.throughput_rps >= CURRENT_SHARE * shifted.scratch_rps * (1 - 1e-3)


def test_without_its_frontier_the_plan_is_the_same(deployed: Plan, shifted: Replan) -> None:
    """As schedules ask for it: what it gives up against a plan from scratch is still told."""
    alone = replan(deployed, longer(deployed.scenario, 1.3), frontier=False)
    assert bucket_pools(alone.plan) == bucket_pools(shifted.plan)
    assert (alone.change, alone.scratch_rps) == (shifted.change, shifted.scratch_rps)
    assert set(alone.frontier) <= set(shifted.frontier)
    assert any(point.chosen for point in alone.frontier)


def test_no_change_is_the_old_plan_priced_on_the_new_workload(deployed: Plan) -> None:
    """Counted from the old pools themselves, by the service that prices any."""
    scenario = longer(deployed.scenario, 0.75)
    near = replan(deployed, scenario, limits=ChangeLimits(most_gpus=0, give_up=0.3))
    priced = BucketService(question_of(scenario)).priced(bucket_pools(deployed))
    assert near.change.gpus_touched == 0
    assert near.current_rps == pytest.approx(near.plan.throughput_rps)
    assert near.plan.throughput_rps == pytest.approx(priced.rate_rps, rel=scenario.simplicity)
    assert near.plan.throughput_rps >= priced.rate_rps * (1 - 1e-9)


def test_more_change_is_never_worse(deployed: Plan) -> None:
    """The points of the frontier, and limits that are loosened step by step, with all prompts 30 % longer."""
    frontier = replan(deployed, longer(deployed.scenario, 1.3, clipped=False)).frontier
    points = [point for point in frontier if point.label != "from scratch"]
    limited = [point for point in points if point.label.startswith("at most")]
    assert all(point.gpus_touched <= int(point.label.split()[2]) for point in limited)
    assert len(points) >= 2
    assert all(a.gpus_touched <= b.gpus_touched and a.value <= b.value * (1 + 1e-9) for a, b in pairwise(points))
    assert all(point.bound is not None and point.value <= point.bound * (1 + 1e-6) for point in points)
    assert sum(point.chosen for point in frontier) == 1


def test_engines_take_no_longer_prompts_than_they_were_started_for(deployed: Plan, much_longer: Replan) -> None:
    old = {pool.island: pool for pool in bucket_pools(deployed)}
    longest = deployed.scenario.workload.max_output_tokens
    answers = much_longer.plan.scenario.workload.max_output_tokens
    rows = [row for row in much_longer.change.changes if row.kind.runs_on]
    for row in rows:
        assert row.after.end - 1 + answers <= old[row.before.island].end - 1 + longest
    assert much_longer.change.gpus_touched > 0


def test_islands_that_run_on_keep_their_names(shifted: Replan, much_longer: Replan) -> None:
    for near in (shifted, much_longer):
        names = [pool.island for pool in bucket_pools(near.plan)]
        assert len(set(names)) == len(names)
        stay = {row.before.island for row in near.change.changes if row.kind.runs_on and row.before is not None}
        assert stay <= set(names)
        fresh = set(names) - stay
        assert not fresh & {pool.island for pool in bucket_pools(near.before)}


def test_a_new_plan_reads_back_and_holds_up(shifted: Replan, much_longer: Replan, tmp_path: Path) -> None:
    for number, near in enumerate((shifted, much_longer)):
        folder = tmp_path / str(number)
        folder.mkdir()
        text = encode_plan(near.plan)
        (folder / "plan.json").write_bytes(text)
        loaded = load_run(folder)
        assert loaded == near.plan
        assert recheck(loaded, "plan.json") == near.plan
        jsonschema.Draft202012Validator(dict(plan_schema())).validate(json.loads(text))
        assert changes_between(loaded, near.plan, ChangeSettings()).gpus_touched == 0


def test_the_certificate_counts_what_is_given_up(shifted: Replan) -> None:
    """The bound is of all plans, so that it is above the plan from scratch."""
    certificate = shifted.plan.certificate
    assert certificate.objective_bound is not None
    assert shifted.scratch_value is not None
    assert certificate.objective_bound >= shifted.scratch_value * (1 - 1e-9)
    assert certificate.objective_value == pytest.approx(shifted.plan.throughput_rps)


def test_turns_alone_start_nothing_else(deployed: Plan) -> None:
    heavy = answering(deployed.scenario, 6.0)
    near = replan(deployed, heavy, limits=TURNS)
    kinds = {row.kind for row in near.change.changes}
    assert ChangeKind.TURN in kinds
    assert not kinds & {ChangeKind.START, ChangeKind.RESIZE, ChangeKind.MOVE}
    assert near.scratch_rps is None
    current = near.current_rps or 0.0
    assert near.plan.throughput_rps >= current * (1 - 1e-9)
    anew = replan(deployed, heavy)
    assert anew.scratch_value is not None
    assert near.plan.certificate.objective_bound is not None
    assert near.plan.certificate.objective_bound >= anew.scratch_value * (1 - 1e-9)


@pytest.mark.study
def test_turns_alone_restart_few_servers_of_a_fleet() -> None:
    """Other flags for all would gain a little: what is given up for fewer GPUs touched holds for turns, too."""
    fleet = plan(replace(load_scenario(shipped_scenarios()["quickstart"], summarize), serving=ServingForm.SPLIT))
    longer_by_a_third = longer(fleet.scenario, 1.3)
    few, best = (replan(fleet, longer_by_a_third, limits=replace(TURNS, give_up=share)) for share in (0.05, 0.0))
    assert few.change.running_on_share >= 0.9
    assert few.plan.throughput_rps >= CURRENT_SHARE * best.plan.throughput_rps
    assert few.change.gpus_touched <= best.change.gpus_touched
    assert few.bound is not None
    assert few.bound >= best.plan.throughput_rps * (1 - 1e-6)


def answering(scenario: Scenario, factor: float) -> Scenario:
    """Answers so many times as long, none longer than the longest was."""
    workload = scenario.workload
    mean = min(workload.mean_output_tokens * factor, float(workload.max_output_tokens))
    return replace(scenario, workload=replace(workload, mean_output_tokens=mean))


def test_servers_that_were_lost_are_gone(deployed: Plan) -> None:
    first = bucket_pools(deployed)[0]
    lost = LostServers(servers=((first.island, 1),))
    near = replan(deployed, deployed.scenario, lost=lost)
    servers = sum(pool.count for pool in bucket_pools(deployed)) - 1
    assert near.change.servers_before == servers
    devices = first.server.parallel.devices
    assert near.plan.scenario.inventory.item("H200").count == 40 - devices
    assert sum(pool.gpus for pool in bucket_pools(near.plan)) <= 40 - devices


def test_gpus_that_were_lost_are_idle_ones_first(deployed: Plan) -> None:
    used = sum(pool.gpus for pool in bucket_pools(deployed))
    near = replan(deployed, deployed.scenario, lost=LostServers(gpus=(("H200", 40 - used + 8),)))
    assert near.change.servers_before < sum(pool.count for pool in bucket_pools(deployed))
    assert sum(pool.gpus for pool in bucket_pools(near.plan)) <= used - 8


def test_where_a_phase_is_lost_the_least_that_serves_is_named(deployed: Plan) -> None:
    decode = tuple((pool.island, pool.count) for pool in bucket_pools(deployed) if pool.phase is Phase.DECODE)
    near = replan(deployed, deployed.scenario, lost=LostServers(servers=decode))
    assert near.current_rps is None
    assert near.change.gpus_touched > 0
    with pytest.raises(InfeasibleError, match=r"limits of change \(most_gpus 0\) .* touches \d+ GPUs") as caught:
        replan(deployed, deployed.scenario, limits=ChangeLimits(most_gpus=0), lost=LostServers(servers=decode))
    named = re.fullmatch(r"Allow (\d+) GPUs to be touched\.", caught.value.hint or "")
    assert named is not None
    fewest_gpus = int(named[1])
    enough, fewer = (ChangeLimits(most_gpus=most) for most in (fewest_gpus, fewest_gpus - 1))
    near = replan(deployed, deployed.scenario, limits=enough, lost=LostServers(servers=decode))
    assert near.change.gpus_touched == fewest_gpus
    with pytest.raises(InfeasibleError):
        replan(deployed, deployed.scenario, limits=fewer, lost=LostServers(servers=decode))


@pytest.mark.parametrize(("hours", "changes"), [(1e-5, False), (1e5, True)])
def test_a_change_has_to_pay_in_time(deployed: Plan, hours: float, changes: bool) -> None:
    """With half of the rate asked for: servers stop where that saves more than it costs, and not for minutes."""
    target = ObjectiveSettings(kind=ObjectiveKind.TARGET, target_rps=0.5 * deployed.throughput_rps)
    limits = ChangeLimits(horizon_hours=hours, least_running_on=0.4)
    near = replan(deployed, replace(deployed.scenario, objective=target), limits=limits)
    assert (near.change.gpus_touched > 0) is changes
    assert near.plan.throughput_rps >= target.target_rps * (1 - 1e-3)
    assert near.change.running_on_share >= 0.4


def test_fewer_gpus_than_run_are_kept_to(deployed: Plan) -> None:
    items = tuple(replace(item, count=24) for item in deployed.scenario.inventory.items)
    near = replan(deployed, replace(deployed.scenario, inventory=Inventory(items=items)))
    assert sum(pool.gpus for pool in bucket_pools(near.plan)) <= 24


BAD = {
    "engine": "engine must be that of the plan that runs",
    "model": "model must be that of the plan that runs, deepseek-v3, or answer to its name, got llama-3.1-70b",
    "gpus": "inventory: must have the GPU types of the plan that runs, got no H200",
    "table": "routing.form must be buckets to stay near a plan of buckets",
}


@pytest.mark.parametrize("fault", BAD)
def test_other_models_engines_and_gpus_are_refused(deployed: Plan, fault: str) -> None:
    other = {
        "engine": {"engine": {"name": "sglang"}},
        "model": {"model": "llama-3.1-70b"},
        "gpus": {"inventory": {"H20": 64}, "prices_usd_per_gpu_hour": {"H20": 1.0}},
        "table": {"routing": {"form": "table"}},
    }[fault]
    with pytest.raises(InputError, match=BAD[fault]) as caught:
        replan(deployed, small_scenario(**other))
    assert caught.value.hint


@pytest.mark.parametrize(
    "lost",
    [
        LostServers(servers=(("nobody", 1),)),
        LostServers(servers=(("h200-8g-prefill-1", 99),)),
        LostServers(gpus=(("H20", 8),)),
        LostServers(gpus=(("H200", 41),)),
        LostServers(nodes=("node-1",)),
    ],
)
def test_what_the_plan_has_not_cannot_be_lost(deployed: Plan, lost: LostServers) -> None:
    with pytest.raises(InputError, match=r"^lost: ") as caught:
        replan(deployed, deployed.scenario, lost=lost)
    assert caught.value.hint


def test_a_plan_without_buckets_says_what_to_do(deployed: Plan) -> None:
    with pytest.raises(InputError, match=r"routing\.form must be buckets to be changed server by server"):
        replan(replace(deployed, buckets=None), deployed.scenario)
