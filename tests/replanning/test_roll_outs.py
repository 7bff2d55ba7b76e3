"""Roll-outs of real plans: floors, GPUs, buckets that change, replays, and what is refused."""

from collections import Counter
from dataclasses import replace
from functools import cache

import pytest
from changed_plans import plan_of_pools, renamed, restarted, small_plan, split, with_longer_answers

from planner import pipeline
from planner.domain import Plan
from planner.domain.changes import ChangeLimits, ChangeSettings, PlanChange
from planner.domain.rollouts import Replan, RollOut
from planner.errors import InconsistentPlanError, InfeasibleError, InputError
from planner.evaluation.buckets.service import BucketService
from planner.replanning.changes import changes_between
from planner.replanning.rollouts.interim import InterimFleet, InterimPlans, replayed
from planner.replanning.rollouts.rolling import roll_out
from planner.runs.replanning.asking import ChangedPlan, ChangeQuestion, change_plan
from planner.workload import question_of

INVENTORY = {"H20": 64, "H200": 32, "H800": 32}


def change(before: Plan, after: Plan) -> PlanChange:
    return changes_between(before, after, ChangeSettings())


@cache
def rolled(name: str, least_share: float) -> tuple[Plan, Plan, RollOut]:
    before = small_plan()
    after = restarted(before) if name == "restarted" else split(before, 3072)
    steps = roll_out(before, after, change(before, after), least_share=least_share, inventory=INVENTORY)
    return before, after, steps


def servers(plan: Plan) -> dict[str, int]:
    return {pool.island: pool.count for pool in plan.buckets.pools}


CASES = [("restarted", 0.75), ("restarted", 0.5), ("split", 0.9), ("split", 0.5)]


@pytest.mark.parametrize(("name", "least_share"), CASES)
def test_no_step_serves_less_than_was_asked_for_by_the_prices_of_any_plan(name: str, least_share: float) -> None:
    """The pools that serve are priced by `BucketService`, as a plan of them would be."""
    before, after, steps = rolled(name, least_share)
    service, fleet = BucketService(question_of(after.scenario)), InterimFleet(before, after)
    lower = min(before.throughput_rps, after.throughput_rps)
    assert steps.current_rps == pytest.approx(before.throughput_rps)
    assert steps.new_rps == pytest.approx(after.throughput_rps)
    for step in steps.steps:
        pools = fleet.lanes[0].pools(dict(step.during), new_table=step.new_table)
        assert service.priced(pools).rate_rps == pytest.approx(step.during_rps)
        assert step.during_rps >= least_share * lower * (1 - 1e-6)
    assert steps.reached_share == min(step.during_rps for step in steps.steps) / min(steps.current_rps, steps.new_rps)
    assert steps.reached_share >= steps.least_share * (1 - 1e-9)


@pytest.mark.parametrize(("name", "least_share"), CASES)
def test_steps_lead_from_the_one_plan_to_the_other_within_the_inventory(name: str, least_share: float) -> None:
    before, after, steps = rolled(name, least_share)
    counts = Counter(servers(before))
    for number, step in enumerate(steps.steps, start=1):
        assert step.number == number
        for item in step.stops:
            assert item.before is not None
            counts[item.before.island] -= item.count
        assert dict(step.during) == +counts
        for item in step.starts:
            assert item.after is not None
            counts[item.after.island] += item.count
        assert dict(step.after) == +counts
        assert min(counts.values()) >= 0
        assert all(gpus <= INVENTORY[gpu] for gpu, gpus in step.gpus)
        assert step.seconds >= max((item.load_s for item in step.starts), default=0.0)
    assert dict(+counts) == servers(after)
    assert [step.new_table for step in steps.steps] == sorted(step.new_table for step in steps.steps)


def test_a_higher_share_takes_more_steps() -> None:
    assert len(rolled("restarted", 0.75)[2].steps) > len(rolled("restarted", 0.5)[2].steps)


def test_new_servers_serve_behind_the_old_buckets_until_the_table_is_swapped() -> None:
    """H200 keeps its servers and takes the long prompts; those that are started for short ones cannot stand in for
    the old bucket, which goes to 7,680 tokens."""
    before, after, _ = rolled("split", 0.5)
    fleet = InterimFleet(before, after)
    old, new = fleet.lanes[0].tables[False], fleet.lanes[0].tables[True]
    assert "h20-16g-prefill-6" not in old.pools
    assert (old.pools["h200-16g-prefill-1"].start, old.pools["h200-16g-prefill-1"].end) == (0, 7680)
    assert (new.pools["h200-16g-prefill-1"].start, new.pools["h200-16g-prefill-1"].end) == (3072, 7680)
    assert new.pools["h20-16g-prefill-1"].end in (3072, 7680)  # its engines take either


def test_a_bucket_without_servers_serves_nothing() -> None:
    before, after, _ = rolled("split", 0.5)
    fleet = InterimFleet(before, after)
    counts = {name: count for name, count in servers(after).items() if name != "h200-16g-prefill-1"}
    assert fleet.rate_rps(counts, new_table=True) == 0.0
    assert fleet.exact_rps(counts, new_table=True) == 0.0


def test_engines_too_short_for_the_new_answers_take_no_part_behind_the_new_buckets() -> None:
    """7 679 tokens of a prompt and twice 1 899 of an answer are more than the 9 578 that they were started for."""
    before, after = small_plan(), with_longer_answers(small_plan())
    fleet = InterimFleet(before, after)
    assert set(fleet.lanes[0].tables[True].pools) == set(servers(after))
    assert set(fleet.lanes[0].tables[False].pools) == {*servers(before), *servers(after)}
    assert fleet.question.workload.max_output_tokens == before.scenario.workload.max_output_tokens == 1899


@pytest.mark.parametrize(
    ("counts", "share"), [((1, 0, 0), 0.996), ((3, 2, 1), 0.998), ((3, 4, 2), 0.998), ((2, 1, 2), 0.998)]
)
def test_curves_lie_just_below_the_prices(counts: tuple[int, int, int], share: float) -> None:
    """Curves let a first token wait for decode at its bound; behind a single server of prefill decode is nearly idle,
    and its step as short as can be."""
    before, after, _ = rolled("restarted", 0.5)
    fleet = InterimFleet(before, after)
    mix = dict(zip(("h20-16g-prefill-1", "h200-16g-prefill-1", "h800-16g-prefill-6"), counts, strict=True))
    mix["h20-16g-decode-1"] = 1
    exact = fleet.exact_rps(mix, new_table=False)
    assert exact > 0
    assert exact * share <= fleet.rate_rps(mix, new_table=False) <= exact * (1 + 1e-9)


def test_the_levels_hold_in_a_replay_of_every_step() -> None:
    before, after, steps = rolled("restarted", 0.5)
    seen = replayed(steps, InterimPlans(before, after))
    assert [step.replayed for step in seen.steps] == [True] * len(seen.steps)
    assert seen.holds is True
    assert seen.replayed_rps == pytest.approx(0.5 * before.throughput_rps * 0.9)


def test_a_step_that_was_promised_too_much_breaks_in_its_replay() -> None:
    """The same servers at twice the rate."""
    before, after, steps = rolled("restarted", 0.5)
    beyond = replace(steps, least_share=1.0, current_rps=2 * steps.current_rps, new_rps=2 * steps.new_rps)
    assert replayed(beyond, InterimPlans(before, after)).holds is False


def test_equal_plans_need_no_step() -> None:
    plan = small_plan()
    steps = roll_out(plan, plan, change(plan, plan), inventory=INVENTORY)
    assert (steps.steps, steps.reached_share, steps.holds) == ((), 1.0, None)
    assert replayed(steps, InterimPlans(plan, plan)) == steps


def test_other_buckets_of_the_same_servers_are_a_step_of_the_router_alone() -> None:
    plan = small_plan()
    longer = plan_of_pools(plan, [replace(pool, start=0, end=6144) for pool in plan.buckets.pools])
    (step,) = roll_out(longer, plan, change(longer, longer), least_share=0.5, inventory=INVENTORY).steps
    assert (step.stops, step.starts, step.new_table) == ((), (), True)


def test_too_high_a_share_names_what_can_be_left_and_what_would_do() -> None:
    before = small_plan()
    after = restarted(before)
    with pytest.raises(InfeasibleError, match=r"at best (\d+\.\d)% can be left") as error:
        roll_out(before, after, change(before, after), least_share=0.99, inventory=INVENTORY)
    share = float(error.value.hint.split("--least-share ")[1].split(",")[0])
    lent, gpu = error.value.hint.split("lend it ")[1].split(" meanwhile")[0].split(" more ")
    assert roll_out(before, after, change(before, after), least_share=share, inventory=INVENTORY).steps
    more = {**INVENTORY, gpu: INVENTORY[gpu] + int(lent)}
    assert roll_out(before, after, change(before, after), least_share=0.99, inventory=more).steps


def test_with_room_for_all_nothing_stops_before_its_stead_serves() -> None:
    before = small_plan()
    after = restarted(before)
    room = {gpu: 2 * count for gpu, count in INVENTORY.items()}
    steps = roll_out(before, after, change(before, after), least_share=1.0, inventory=room)
    assert steps.reached_share >= 1.0
    assert len(steps.steps) == 2


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan")])
def test_shares_are_from_0_to_1(share: float) -> None:
    plan = small_plan()
    with pytest.raises(InputError, match="least_share"):
        roll_out(plan, plan, change(plan, plan), least_share=share, inventory=INVENTORY)


def test_plans_without_buckets_are_refused() -> None:
    plan = small_plan()
    with pytest.raises(InputError, match=r"routing\.form must be buckets to be changed in steps"):
        InterimFleet(replace(plan, buckets=None), plan)


def test_a_change_of_other_plans_is_a_defect() -> None:
    before = small_plan()
    after = restarted(before)
    with pytest.raises(InconsistentPlanError, match="must lead from the servers"):
        roll_out(before, after, change(before, before), inventory=INVENTORY)


def test_servers_that_cannot_join_another_island_count_against_the_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half the servers of an island would run on in another one; there they are started anew."""
    before = small_plan()
    assert before.buckets is not None
    pools = [pool for pool in before.buckets.pools if pool.island != "h200-16g-prefill-1"]
    four = next(pool for pool in before.buckets.pools if pool.island == "h200-16g-prefill-1")
    half, all_servers = four.count // 2, sum(pool.count for pool in before.buckets.pools)
    assert (half, 2 * half) == (1, four.count)
    after = plan_of_pools(before, [*pools, replace(four, count=half), renamed(replace(four, count=half))])
    share, touched = 1 - half / all_servers, half * four.gpus // four.count
    near = Replan(
        plan=after,
        before=before,
        change=change(before, after),
        frontier=(),
        current_rps=None,
        scratch_rps=None,
        scratch_value=None,
        scratch_bound=None,
        bound=None,
    )
    monkeypatch.setattr(pipeline, "replan", lambda *_: near)
    assert near.change.running_on_share == 1.0

    def changed(limits: ChangeLimits) -> ChangedPlan:
        return change_plan(
            before, ChangeQuestion(scenario=after.scenario, limits=limits, least_share=0.5, replays=False)
        )

    kept = changed(ChangeLimits(least_running_on=share - 1e-9, most_gpus=touched)).change.running_on_share
    assert kept == pytest.approx(share)
    for limits in (ChangeLimits(least_running_on=share + 0.01), ChangeLimits(most_gpus=touched - 1)):
        with pytest.raises(InfeasibleError, match=r"of the servers run on, as 1 server.* in other islands"):
            changed(limits)
