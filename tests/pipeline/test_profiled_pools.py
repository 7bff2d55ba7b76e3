"""Pools behind buckets that are priced by a profile: by hand, against the formulas, and what it does not know."""

from collections.abc import Iterable
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from test_enumerated_pools import LEVELS, evaluator_of

from planner.cost import CostContext, pool_share
from planner.cost.step import Steps, step_cost
from planner.domain import CostSource, Measurement, Origin, Phase, Question, ServingForm
from planner.domain.arrivals import ReplaySettings
from planner.errors import InfeasibleError, InputError
from planner.evaluation.evaluator import Evaluator
from planner.evaluation.pool_assembly import pool_estimates
from planner.pipeline import plan, replay
from planner.proposing.buckets.pools import BucketChoice, solve_buckets

FEW = {"H20": 3, "H200": 2}
CONTEXTS, SEQUENCES = (256, 1024, 2048, 4096, 8192, 16384), (1, 8, 32, 64, 128, 256, 512, 1024)


def grid_of(question: Question) -> tuple[np.ndarray, np.ndarray]:
    """The mean and the longest prompt of every range, one at a time and as many as a step of the scenario takes."""
    means = [span.mean_input_tokens for span in question.workload.ranges]
    lengths = np.array([*means, *(float(span.end - 1) for span in question.workload.ranges)])
    budget = question.scenario.cost.max_tokens_per_step * (1 - 1e-9)  # by rounding more would be two chunks
    return np.stack([lengths, lengths]), np.stack([np.ones(len(lengths)), budget / lengths])


def profile_of(question: Question, *, times: float = 1.0) -> tuple[Measurement, ...]:
    """What the formulas say of one GPU, `times` as long; of prefill as its pools are served."""
    scenario, rows = question.scenario, []
    for item, phase in product(scenario.inventory.items, (Phase.PREFILL, Phase.DECODE)):
        context = CostContext(gpu=item.gpu, model=scenario.model, settings=scenario.cost)
        pace = pool_share(context) if phase is Phase.PREFILL else 1.0
        lengths, batches = grid_of(question) if phase is Phase.PREFILL else np.meshgrid(CONTEXTS, SEQUENCES)
        one = np.ones((1, 1))
        steps = Steps(phase=phase, tp=one, dp=one, pp=one, length=1.0 * lengths, batch=1.0 * batches)
        ms = times * step_cost(context, steps, overlap=False).total_ms / pace
        rows += [
            measured(item.gpu.name, scenario.model.name, phase, *point)
            for point in zip(lengths.ravel().tolist(), batches.ravel().tolist(), ms.ravel().tolist(), strict=True)
        ]
    return tuple(rows)


def measured(gpu: str, model: str, phase: Phase, length: float, batch: float, ms: float) -> Measurement:
    return Measurement(gpu=gpu, model=model, phase=phase, tp=1, dp=1, ep=1, length=length, batch=batch, ms=ms)  # type: ignore[arg-type]  # a mean length


def profiled(question: Question, rows: Iterable[Measurement]) -> Question:
    cost = replace(question.scenario.cost, source=CostSource.TABULATED, profile=tuple(rows))
    return replace(question, scenario=replace(question.scenario, cost=cost))


def solved(question: Question) -> BucketChoice:
    return solve_buckets(Evaluator(question))


def test_a_profile_of_the_formulas_gives_their_pools() -> None:
    question = evaluator_of(FEW).question
    plain, choice = solved(question), solved(profiled(question, profile_of(question)))
    shapes = [[(pool.gpu, pool.phase, pool.count, pool.server) for pool in c.priced.pools] for c in (plain, choice)]
    assert shapes[0] == shapes[1]
    assert choice.priced.rate_rps == pytest.approx(plain.priced.rate_rps, rel=0.005)
    assert choice.bound == pytest.approx(plain.bound, rel=0.005)


@pytest.mark.parametrize("slo", [{}, LEVELS])
def test_steps_of_twice_the_time_serve_no_more_than_half(slo: dict[str, float]) -> None:
    question = evaluator_of(FEW, slo=slo).question
    once, twice = (solved(profiled(question, profile_of(question, times=times))) for times in (1.0, 2.0))
    assert twice.priced.rate_rps <= 0.5 * once.priced.rate_rps * (1 + 1e-6)
    if not slo:
        assert twice.priced.rate_rps == pytest.approx(0.5 * once.priced.rate_rps)
        assert twice.bound == pytest.approx(0.5 * once.bound)


def test_what_a_server_does_by_hand() -> None:
    """A prompt takes 100 ms, a token 20 ms at every batch: ten prompts a second, and the largest batch of answers."""
    question = evaluator_of({"H200": 2}).question
    model, answer = question.scenario.model.name, question.workload.mean_output_tokens
    rows = [
        measured("H200", model, phase, length, batch, 100.0 * batch if phase is Phase.PREFILL else 20.0)
        for phase, length, batch in product((Phase.PREFILL, Phase.DECODE), (256, 16384), (1, 64))
    ]
    pools = {pool.phase: pool for pool in solved(profiled(question, rows)).priced.pools}
    assert pools[Phase.PREFILL].capacity_rps == pytest.approx(10.0)
    assert pools[Phase.DECODE].server.batch_size == 64
    assert pools[Phase.DECODE].capacity_rps == pytest.approx(64 / 0.020 / answer)


def test_what_was_not_measured_does_not_serve() -> None:
    question = evaluator_of(FEW).question
    rows = profile_of(question)
    longest = max(span.end for span in question.workload.ranges)
    short = [row for row in rows if row.phase is Phase.DECODE or row.length < longest / 2]
    with pytest.raises(InfeasibleError, match="no servers"):
        solved(profiled(question, short))
    with pytest.raises(InputError, match=r"must have measurements of .* on H200"):
        solved(profiled(question, [row for row in rows if row.gpu == "H20"]))
    only_prefill = [row for row in rows if row.gpu == "H20" or row.phase is Phase.PREFILL]
    pools = solved(profiled(question, only_prefill)).priced.pools
    assert {pool.gpu for pool in pools if pool.phase is Phase.DECODE} == {"H20"}
    assert {pool.server.parallel.devices for pool in pools} == {1}


def test_a_replay_takes_the_steps_of_the_profile() -> None:
    """Steps of four times the time and a quarter of the requests: the same hour, four times as slow."""
    question = evaluator_of(FEW).question
    medians = {}
    for times in (0.5, 2.0):
        finished = plan(profiled(question, profile_of(question, times=times)).scenario)
        settings = ReplaySettings(seeds=(0,), requests=1000)
        total = replay(finished, finished.scenario.workload, settings, 0.9 * finished.throughput_rps).total
        assert total.ttft_ms is not None
        assert total.tpot_ms is not None
        medians[times] = (total.ttft_ms.p50.mean, total.tpot_ms.p50.mean)
    for slow, fast in zip(medians[2.0], medians[0.5], strict=True):
        assert slow == pytest.approx(4 * fast, rel=0.05)


def test_a_whole_plan_says_whose_times_it_rests_on() -> None:
    question = evaluator_of(FEW, slo=LEVELS).question
    scenario = replace(profiled(question, profile_of(question)).scenario, serving=None)
    assert scenario.serving_form is ServingForm.SPLIT
    made = plan(scenario)
    assert made.outlook.promise_rps == pytest.approx(0.9 * made.throughput_rps)
    assert {estimate.origin for estimate in made.provenance.estimates} == {Origin.USER}
    assert made.provenance.estimates == pool_estimates(scenario, made.outlook.pools)
    assert made.rate_band is None
    late = [row for row in made.outlook.latencies if row.bound_ms is not None]
    assert late
    assert all(row.late_ms is not None and row.late_ms <= row.bound_ms * 1.001 for row in late if row.bound_ms)
