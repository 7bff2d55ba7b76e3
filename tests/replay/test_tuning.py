"""Knobs turned by replays: the tuned plan is what it says, on streams not seen, and stays where it should."""

import math
from dataclasses import replace
from functools import cache
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from small_plans import bucketed, small_plan

from planner import pipeline
from planner.domain import BucketPool, Phase, Plan, RequestTrace
from planner.domain.arrivals import Failure
from planner.domain.serving.tuning import WORTH, TunedPlan, TuneGoal, TuneSettings
from planner.errors import InputError
from planner.evaluation.buckets.service import BucketService
from planner.evaluation.evaluator import open_evaluator
from planner.evaluation.replay.replaying import PlanReplay
from planner.evaluation.replay.streams import gain_of, stretches_of
from planner.plans.finishing import finished_plan
from planner.proposing.buckets.proposals import pools_again
from planner.proposing.feasibility import posed
from planner.proposing.replayed.space import RUNNING, ReplaySpace, running_menu
from planner.proposing.search.experiment import DialProposer
from planner.replay.arrivals import requests_of_profile
from planner.runs.replays.tuning import tune_replays

QUICK = TuneSettings(rounds=2, batch=3, requests=150, rate_rps=60.0)
AGGREGATED = {
    "model": "llama-3.1-8b",
    "workload": "azure-code-2023",
    "slo": {"ttft_ms": 1000, "tpot_ms": 30, "percentile": 90},
    "serving": "aggregated",
}


def with_pools(plan: Plan, pools: tuple[BucketPool, ...]) -> Plan:
    with open_evaluator(posed(plan.scenario)) as evaluator:
        return finished_plan(evaluator, pools_again(evaluator, plan, pools))


@cache
def mistaken() -> Plan:
    """Servers that do both phases, started with a token budget that is far too small."""
    plan = pipeline.plan(bucketed({"H100": 4}, **AGGREGATED))
    pools = (replace(pool, share=1.0, server=replace(pool.server, tokens_per_step=512)) for pool in plan.outlook.pools)
    return with_pools(plan, tuple(pools))


def tuned_again(plan: Plan, quick: TuneSettings = QUICK) -> tuple[TunedPlan, Plan | None]:
    lengths = plan.scenario.workload
    return pipeline.tune(plan, lengths, tune_replays(plan, lengths), quick)


@cache
def mended() -> tuple[TunedPlan, Plan]:
    tuned, plan = tuned_again(mistaken())
    assert plan is not None
    return tuned, plan


def test_a_wrong_budget_is_found_and_the_servers_stay() -> None:
    tuned, plan = mended()
    assert tuned.chosen
    assert tuned.gains[0].gain.low is not None
    assert tuned.gains[0].gain.low >= WORTH
    before, after = (
        [(pool.gpu, pool.count, pool.server.parallel, pool.start, pool.end) for pool in each.outlook.pools]
        for each in (mistaken(), plan)
    )
    assert before == after
    assert plan.outlook.pools[0].server.tokens_per_step > 512
    assert pipeline.recheck(plan, "tuned") == plan
    assert plan.throughput_rps == tuned.tuned_capacity_rps


@pytest.mark.parametrize("number", [0, 1])
def test_values_are_those_of_the_plan_as_it_would_be_deployed(number: int) -> None:
    """By the islands and routes of the finished plans, which the search has never seen."""
    tuned, plan = mended()
    stream, gain = tuned.fresh[number], tuned.gains[0]
    for each, value in ((mistaken(), gain.before[number]), (plan, gain.after[number])):
        replays = replace(tune_replays(each, each.scenario.workload), seeds=(stream.seed,), requests=2 * QUICK.requests)
        replay = PlanReplay(each, posed(each.scenario).workload, each.scenario.workload, replays)
        assert replay.at(QUICK.rate_rps).total.goodput_rps.mean == pytest.approx(value)


def test_both_settings_meet_the_same_requests_and_the_search_has_not_seen_them() -> None:
    tuned, _ = mended()
    assert not {stream.seed for stream in tuned.streams} & {stream.seed for stream in tuned.fresh}
    assert len(tuned.gains[0].before) == len(tuned.gains[0].after) == len(tuned.fresh) >= 8
    arrivals = tune_replays(mistaken(), mistaken().scenario.workload).arrivals
    first, other = (
        requests_of_profile(mistaken().scenario.workload, arrivals, seed=seed, rate_rps=5.0, count=50)
        for seed in (tuned.streams[0].seed, tuned.fresh[0].seed)
    )
    assert list(first.prompt_tokens) != list(other.prompt_tokens)


def test_a_seed_gives_the_same_search_and_another_one_others() -> None:
    few = replace(QUICK, requests=100, goals=(TuneGoal.TTFT,), rate_rps=mistaken().throughput_rps)
    first, again = tuned_again(mistaken(), few), tuned_again(mistaken(), few)
    assert first == again
    other, _ = tuned_again(mistaken(), replace(few, seed=1))
    assert other.trials[0].short != first[0].trials[0].short


def test_a_small_space_is_looked_at_in_full_from_the_plan_on_and_the_best_plan_stays() -> None:
    sections = {**AGGREGATED, "cost": {"max_tokens_per_step": 2048}}
    plan = pipeline.plan(bucketed({"H100": 4}, **sections))
    space = ReplaySpace(posed(plan.scenario), None, tuple(replace(p, share=1.0) for p in plan.outlook.pools))
    every = [point for point in product(*(dial.values for dial in space.dials)) if space.pools(point)]
    at_rest = TuneSettings(rounds=3, batch=6, requests=100, goals=(TuneGoal.GOODPUT,), rate_rps=1.0)
    tuned, changed = tuned_again(plan, at_rest)
    assert tuned.trials[0].setting == space.parameters(space.base)
    assert {trial.setting for trial in tuned.trials} == {space.parameters(point) for point in every}
    assert len(tuned.trials) == len(every)
    assert tuned.trials[0].long is not None
    assert all(knob.before != "none" for knob in tuned.knobs)
    assert not tuned.chosen
    assert changed is None
    assert tuned.tuned_capacity_rps is None


def test_running_servers_turn_flags_and_weights_alone() -> None:
    pool = replace(mistaken().outlook.pools[0], share=1.0, count=2)
    fast, slow = replace(pool, weight=1.0), replace(pool, weight=0.5, server=replace(pool.server, batch_size=4))
    space = ReplaySpace(posed(mistaken().scenario), None, (fast, slow))
    assert {dial.kind for dial in space.dials} == {"budget", "batch", "weight"} < RUNNING
    assert [p.weight for p in space.pools(space.base)] == [1.0, 0.5]
    assert [p.server for p in space.pools(space.base)] == [fast.server, slow.server]
    number = next(n for n, dial in enumerate(space.dials) if dial.kind == "weight")
    for steps in space.dials[number].values:
        weights = [p.weight for p in space.pools((*space.base[:number], steps, *space.base[number + 1 :]))]
        assert weights[1] / weights[0] == pytest.approx(0.5 * 1.08**steps)
        assert max(weights) == 1.0
    swapped = ReplaySpace(posed(mistaken().scenario), None, (slow, fast))
    for steps in (-3, 3):
        number = next(n for n, dial in enumerate(swapped.dials) if dial.kind == "weight")
        weights = [p.weight for p in swapped.pools((*swapped.base[:number], steps, *swapped.base[number + 1 :]))]
        assert weights == pytest.approx([0.5 / 1.08**steps, 1.0])


def test_prefill_servers_hold_as_many_prompts_as_fill_their_budget() -> None:
    plan = small_plan("dense, with levels")
    menus = ReplaySpace(posed(plan.scenario), None, plan.outlook.pools).slots
    prefill = next(slot for slot in menus if slot.pool.phase is Phase.PREFILL)
    own_server = prefill.pool.server
    assert prefill.menu.server(0, own_server.tokens_per_step, 0) == own_server
    assert max(prefill.menu.budgets) <= plan.scenario.cost.max_tokens_per_step
    smaller = prefill.menu.server(0, 2048, 0)
    assert smaller is not None
    assert smaller.batch_size != own_server.batch_size
    back = running_menu(posed(plan.scenario), replace(prefill.pool, server=smaller))
    assert back.server(0, own_server.tokens_per_step, 0) == own_server


@given(hours=st.integers(2, 30), seed=st.integers(0, 3))
@settings(max_examples=20, deadline=None)
def test_stretches_of_a_trace_are_half_hours_that_do_not_overlap(hours: int, seed: int) -> None:
    arrival = np.sort(np.random.default_rng(seed).uniform(0, 1800.0 * hours, 50)).tolist()
    trace = RequestTrace(name="t", arrival_s=arrival, input_tokens=[1] * 50, output_tokens=[1] * 50)
    search, unseen = stretches_of(trace)
    every = sorted([*search, *unseen])  # type: ignore[type-var]
    assert all(one is not None and other is not None for one, other in zip(search, unseen, strict=False))
    assert all(before[1] <= after[0] for before, after in pairwise(every))  # type: ignore[index]
    span = arrival[-1] - arrival[0]
    assert all(end - start == (1800.0 if span >= 3600 else span / 2) for start, end in every)  # type: ignore[misc]
    assert 1 <= len(unseen) <= len(search) <= 4
    assert max(end for _, end in every) <= span * (1 + 1e-6)  # type: ignore[misc]


def test_a_trace_is_judged_on_half_hours_apart() -> None:
    clock = np.linspace(0, 7200, 6000).tolist()
    trace = RequestTrace(name="even", arrival_s=clock, input_tokens=[2000] * 6000, output_tokens=[20] * 6000)
    plan = mistaken()
    quick = replace(QUICK, batch=2, rounds=1, requests=100, goals=(TuneGoal.TTFT,), rate_rps=plan.throughput_rps)
    tuned, _ = pipeline.tune(plan, trace, tune_replays(plan, trace), quick)
    short_first = replace(trace, input_tokens=[500 if second % 3600 < 1800 else 7000 for second in clock])
    long_first = replace(trace, input_tokens=[7000 if second % 3600 < 1800 else 500 for second in clock])
    short, long = (
        pipeline.tune(plan, each, tune_replays(plan, each), quick)[0].trials[0].short[0]
        for each in (short_first, long_first)
    )
    assert short < long / 4
    assert {stream.between for stream in tuned.streams} == {(0.0, 1800.0), (3600.0, 5400.0)}
    assert {stream.between for stream in tuned.fresh} == {(1800.0, 3600.0), (5400.0, 7200.0)}
    assert tuned.arrivals.startswith("trace")


@given(seed=st.integers(0, 1000), count=st.integers(2, 12), less=st.booleans())
@settings(max_examples=30, deadline=None)
def test_gains_have_students_interval_of_paired_logarithms(seed: int, count: int, less: bool) -> None:
    rng = np.random.default_rng(seed)
    before = rng.uniform(1, 100, count)
    after = before * rng.lognormal(0.03, 0.02, count)
    gain = gain_of(before.tolist(), after.tolist(), less_is_better=less)
    paired = np.log(before / after) if less else np.log(after / before)
    low, high = stats.t.interval(0.95, count - 1, loc=paired.mean(), scale=stats.sem(paired))
    assert gain.mean == pytest.approx(math.expm1(paired.mean()))
    assert (gain.low, gain.high) == pytest.approx((math.expm1(low), math.expm1(high)), rel=1e-3, abs=1e-5)


@pytest.mark.parametrize("goals", [1, 2])
def test_the_library_finds_the_best_of_a_mixed_space(goals: int) -> None:
    """Enumerated: 5 x 4 x 7 x 4 settings, of which it sees 16. Two goals that agree are one."""
    dials = {"a": (1, 2, 4, 8, 16), "b": (-3, -2, -1, 0), "c": tuple(range(7)), "d": (512, 1024, 4096, 8192)}
    tops = {"a": 4, "b": -1, "c": 5, "d": 1024}

    def value(setting: dict[str, int]) -> float:
        return -sum(abs(dials[name].index(setting[name]) - dials[name].index(top)) ** 1.5 for name, top in tops.items())

    judged = [dict(zip(dials, values, strict=True)) for values in list(product(*dials.values()))[::97]]
    assert max(map(value, judged)) <= -3
    proposer = DialProposer(dials, [-1.0] * goals)
    for seed in range(2):
        scale = max(abs(value(setting)) for setting in judged)
        fresh = proposer.propose([(setting, [value(setting) / scale] * goals) for setting in judged], 5, seed)
        assert all(setting[name] in dials[name] for setting in fresh for name in dials)
        judged += [setting for setting in fresh if setting not in judged]
    best = max(value(dict(zip(dials, values, strict=True))) for values in product(*dials.values()))
    assert best == 0
    assert max(map(value, judged)) >= -1
    assert len(judged) <= 16


def test_goals_together_are_judged_apart_and_none_may_lose() -> None:
    plan = mistaken()
    both = replace(QUICK, requests=250, goals=(TuneGoal.GOODPUT, TuneGoal.TTFT), rate_rps=1.1 * plan.throughput_rps)
    tuned, changed = tuned_again(plan, both)
    assert [gain.goal for gain in tuned.gains] == [*both.goals]
    lows = [gain.gain.low for gain in tuned.gains]
    assert all(low is not None for low in lows)
    assert (changed is not None) == tuned.chosen == (max(lows) >= WORTH and min(lows) > -WORTH)  # type: ignore[type-var]
    ttft = tuned.gains[1]
    assert ttft.gain.mean == pytest.approx(math.exp(np.mean(np.log(np.array(ttft.before) / np.array(ttft.after)))) - 1)


def test_settings_below_the_rate_that_is_asked_for_are_not_tried() -> None:
    plan = mistaken()
    objective = replace(plan.scenario.objective, target_rps=plan.throughput_rps)
    asked_for = replace(plan, scenario=replace(plan.scenario, objective=objective))
    quick = replace(QUICK, batch=5, requests=100, goals=(TuneGoal.TTFT,), rate_rps=plan.throughput_rps)
    space = ReplaySpace(posed(plan.scenario), None, tuple(replace(p, share=1.0) for p in plan.outlook.pools))
    service = BucketService(posed(plan.scenario))

    def lowest_rps(each: Plan) -> float:
        points = [space.point(dict(trial.setting)) for trial in tuned_again(each, quick)[0].trials]
        return min(service.priced(space.pools(point)).rate_rps for point in points)

    assert lowest_rps(plan) < plan.throughput_rps * (1 - 1e-3)
    assert lowest_rps(asked_for) > plan.throughput_rps * (1 - 1e-3)


def test_what_fails_fails_in_every_replay() -> None:
    plan, lengths = mistaken(), mistaken().scenario.workload
    quick = replace(QUICK, rounds=1, batch=2, goals=(TuneGoal.GOODPUT,), rate_rps=0.5 * plan.throughput_rps)
    failure = Failure(island=plan.outlook.pools[0].island, at_s=2.0, nodes=0)
    sound, failing = (
        pipeline.tune(plan, lengths, tune_replays(plan, lengths, failures=failures), quick)[0]
        for failures in ([], [failure])
    )
    for before, after in zip(sound.trials, failing.trials, strict=True):
        assert after.short[0] < 0.9 * before.short[0]


def test_plans_without_pools_and_goals_without_levels_are_refused() -> None:
    plan = small_plan("one node type, no levels")
    lengths = plan.scenario.workload
    with pytest.raises(InputError, match="goal goodput must go with service levels"):
        tuned_again(plan, replace(QUICK, goals=(TuneGoal.GOODPUT,)))
    with pytest.raises(InputError, match="must be of pools behind buckets"):
        pipeline.tune(replace(plan, buckets=None), lengths, tune_replays(plan, lengths), QUICK)
