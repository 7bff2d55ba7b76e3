"""Plans that are chosen by replays: never worse than the programme's answer, the same again, and whole wherever cut."""

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from random import Random

import pytest
from pipeline_scenarios import bucketed

from planner.domain import (
    BucketPlan,
    DrawnFrom,
    Judged,
    Phase,
    Plan,
    Proposed,
    ReportProgress,
    RequestTrace,
    Scenario,
)
from planner.domain.serving.promise import ReplayedChoice
from planner.errors import InputError
from planner.evaluation.buckets.service import BucketService
from planner.evaluation.evaluator import Evaluator
from planner.evaluation.replay.fleet import replay_fleet
from planner.evaluation.replay.pooled import PooledReplay
from planner.files import encode_plan, load_run
from planner.pipeline import plan, recheck
from planner.proposing.buckets.pools import solve_buckets
from planner.proposing.buckets.proposals import REPLAYED
from planner.proposing.feasibility import posed
from planner.proposing.replayed import rounds as replay_rounds
from planner.proposing.replayed.choice import find_replayed
from planner.proposing.replayed.moves import neighbours
from planner.proposing.replayed.rounds import Judges, ReplayBudget, ReplayRounds
from planner.proposing.replayed.space import Point, ReplaySpace
from planner.report import summary

LEVELS = {"ttft_ms": 4000, "tpot_ms": 60, "percentile": 99}
OBJECTIVE = {"kind": "replayed", "requests": 1000, "replays": 2}
SEARCH = {"iterations": 2, "batch_size": 5, "timings": False}
RUNG = 1.01


def asked(gpus: int = 24, **changes: object) -> Scenario:
    sections = {"slo": LEVELS, "objective": OBJECTIVE, "search": SEARCH, "routing": {"most": 1}}
    return bucketed({"H200": gpus}, **{**sections, **changes})


def buckets_of(made: Plan) -> BucketPlan:
    assert made.buckets is not None
    return made.buckets


def replayed_of(made: Plan) -> ReplayedChoice:
    replayed = buckets_of(made).replayed
    assert replayed is not None
    return replayed


class Kept:
    """A journal in memory."""

    def __init__(self) -> None:
        self.rounds: list[Proposed] = []
        self.trials: list[Judged] = []

    def proposed(self, iteration: int) -> Proposed | None:
        return self.rounds[iteration] if iteration < len(self.rounds) else None

    def judged(self, index: int) -> Judged | None:
        return self.trials[index] if index < len(self.trials) else None

    def keep_proposed(self, proposed: Proposed) -> None:
        self.rounds.append(proposed)

    def keep_judged(self, judged: Judged) -> None:
        self.trials.append(judged)

    def keep_experiment(self, document: bytes) -> None:
        raise AssertionError(document)


def interrupting(after: int) -> ReportProgress:
    """Ctrl-C after so many rounds."""
    heard: list[int] = []

    def progress(done: int, _total: int, _best: float) -> None:
        heard.append(done)
        if len(heard) == after:
            raise KeyboardInterrupt

    return progress


@pytest.fixture(scope="module")
def made() -> Plan:
    return plan(asked())


def test_the_answer_that_was_solved_for_is_replayed_first_and_never_better(made: Plan) -> None:
    first, replayed = made.search.trials[0], replayed_of(made)
    assert first.generator == "exact"
    assert first.replayed_rps == replayed.solved.search_rps > 0
    assert replayed.plan.search_rps >= replayed.solved.search_rps
    assert replayed.plan.fresh_rps is not None
    assert replayed.solved.fresh_rps is not None
    assert replayed.plan.fresh_rps >= replayed.solved.fresh_rps
    assert not set(replayed.search_seeds) & set(replayed.fresh_seeds)


def test_the_record_tells_every_trial_with_both_rates(made: Plan) -> None:
    record, replayed = made.search, replayed_of(made)
    replays = [trial for trial in record.trials if trial.replayed_rps is not None]
    assert len({trial.parameters for trial in replays}) == len(replays) == replayed.replayed
    assert len(replays) <= 2 * OBJECTIVE["replays"]
    assert len(record.trials) > len(replays)
    best = record.trials[record.best_trial]
    assert (best.throughput_rps, best.replayed_rps) == (replayed.plan.analytic_rps, replayed.plan.search_rps)
    assert record.best_by_iteration()[-1] == max(trial.replayed_rps or 0 for trial in replays)


def test_the_plan_is_consistent_and_is_read_back_whole(made: Plan, tmp_path: Path) -> None:
    recheck(made, "plan")
    (tmp_path / "plan.json").write_bytes(encode_plan(made))
    again = load_run(tmp_path)
    assert (again.search, again.buckets) == (made.search, made.buckets)
    assert recheck(again, "run") is again


def test_its_pages_and_certificate_claim_no_more_than_was_replayed(made: Plan) -> None:
    page = summary(made)
    assert "Replayed, the plan holds the levels up to" in page
    assert "behind `haproxy`" in page
    assert REPLAYED in made.certificate.note


def test_pools_are_replayed_as_the_finished_plan_is(made: Plan) -> None:
    question = posed(made.scenario)
    mine = PooledReplay(question).fleet(buckets_of(made).pools)
    theirs = replay_fleet(made, question.workload, replay_prefixes=False, storage_gb_s=2.0)
    # a search's replays know exact lengths, so that nobody comes to servers that are too short
    assert mine == replace(theirs, intervals=tuple(replace(interval, context=0) for interval in theirs.intervals))


def test_an_interrupt_leaves_the_best_so_far_and_equal_seeds_give_equal_plans_from_there(made: Plan) -> None:
    journal = Kept()
    cut_short = plan(asked(), interrupting(after=1), journal)
    assert cut_short.search.interrupted
    assert replayed_of(cut_short).plan.fresh_rps is None
    assert cut_short.search.trials == made.search.trials[: len(cut_short.search.trials)]
    recheck(cut_short, "plan")
    assert "was not held against fresh ones" in summary(cut_short)
    assert encode_plan(plan(asked(), journal=journal)) == encode_plan(made)


def test_an_interrupt_before_the_first_replay_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_arguments: object, **_settings: object) -> float:
        raise KeyboardInterrupt

    monkeypatch.setattr(Judges, "replayed_rps", interrupted)
    with pytest.raises(KeyboardInterrupt):
        plan(asked())


def _favouring(fresh_gain: float) -> Callable[..., float]:
    """A replay that finds all but the answer better by a tenth, on fresh seeds (longer streams) by less."""

    def replayed_rps(judges: Judges, point: Point, _seeds: object, requests: int, **_settings: object) -> float:
        gain = 0.1 if requests == OBJECTIVE["requests"] else fresh_gain
        return judges.priced(point).rate_rps * (1 if point == judges._space.base else 1 + gain)

    return replayed_rps


def test_what_is_better_on_fresh_seeds_too_is_the_plan(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(Judges, "replayed_rps", _favouring(fresh_gain=0.05))
    chosen = plan(asked())
    replayed = replayed_of(chosen)
    assert replayed.chosen
    assert chosen.throughput_rps == pytest.approx(replayed.plan.analytic_rps)
    assert sum(point.chosen for point in buckets_of(chosen).simpler) == 1
    recheck(chosen, "plan")
    (tmp_path / "plan.json").write_bytes(encode_plan(chosen))
    assert load_run(tmp_path).buckets == chosen.buckets
    page = summary(chosen)
    assert "behind `haproxy`" in page
    assert "The pools that were solved for: " in page


def test_what_is_better_on_the_searchs_seeds_alone_is_not_the_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Judges, "replayed_rps", _favouring(fresh_gain=0.005))
    kept = plan(asked())
    replayed = replayed_of(kept)
    assert not replayed.chosen
    assert replayed.candidate.search_rps > 1.05 * replayed.solved.search_rps
    assert kept.search.best_trial == 0
    assert "is not better by more than 1 %" in summary(kept)


class FakeJudges:
    """Judges by formula: the model of queues sees neither that the second shape of prefill is 9 % better nor that
    decode servers with a lower batch limit are 4 % better."""

    def __init__(self, space: ReplaySpace, priced: Callable[[Point], object]) -> None:
        self._space, self.priced = space, priced

    def true_rps(self, point: Point) -> float:
        better = 1.09 if self._space.value(point, "shape", 0) == 1 else 1.0
        smaller = (
            1.04 if any(dial.kind == "batch" and v for dial, v in zip(self._space.dials, point, strict=True)) else 1.0
        )
        return float(self.priced(point).rate_rps) * better * smaller  # type: ignore[attr-defined]

    def replayed_rps(self, point: Point, *_arguments: object, **_settings: object) -> float:
        return self.true_rps(point)


def _space(scenario: Scenario) -> tuple[Evaluator, ReplaySpace, Judges]:
    question = posed(scenario)
    evaluator = Evaluator(question)
    choice = solve_buckets(evaluator)
    space = ReplaySpace(question, evaluator.prices, choice.priced.pools)
    return evaluator, space, Judges(question, space, PooledReplay(question), choice.priced.rate_rps)


def _every(space: ReplaySpace) -> list[Point]:
    return [point for point in product(*(dial.values for dial in space.dials)) if space.pools(point)]


def _best_found(space: ReplaySpace, judges: object, scenario: Scenario, replays: int) -> tuple[float, int]:
    """(the best replayed rate, how many were replayed)."""
    search = ReplayRounds(
        space=space,
        judges=judges,  # type: ignore[arg-type]
        settings=replace(scenario.search, iterations=6, batch_size=12),
        budget=ReplayBudget(replays=replays, requests=1000, seeds=(0,)),
        journal=Kept(),
    )
    search.run(lambda *_: None)
    return search.best_rps, len(search.dear)


def test_the_search_finds_the_best_of_all_where_the_first_judge_is_blind() -> None:
    scenario = asked(routing={"most": 1})
    _, space, judges = _space(scenario)
    fake = FakeJudges(space, judges.priced)
    every = _every(space)
    found, replays = _best_found(space, fake, scenario, replays=1)
    assert found >= max(map(fake.true_rps, every)) / RUNG
    assert replays <= 7 < len(every) / 4


@pytest.mark.study
def test_the_search_finds_the_best_of_all_replays() -> None:
    scenario = asked(16, routing={"most": 1})
    _, space, judges = _space(scenario)
    every = [point for point in _every(space) if judges.priced(point).rate_rps > 0]
    rates = [judges.replayed_rps(p, (0,), 1000, guess_rps=judges.priced(p).rate_rps) for p in every]
    found, replays = _best_found(space, judges, scenario, replays=2)
    assert found >= max(rates) / RUNG
    assert replays < len(every)


def test_points_near_the_answer_are_all_deployable_and_can_be_priced() -> None:
    scenario = asked(40, routing={"most": 2, "policy": "least_work"})
    evaluator, space, judges = _space(scenario)
    near = {point: move for move, point in neighbours(space, [space.base], [space.base], 40, Random(3))}
    assert len(near) == 40
    assert {"servers", "budget", "batch", "bucket", "shape"} <= set(near.values())
    for point in near:
        pools = space.pools(point)
        assert sum(pool.gpus for pool in pools) <= 40
        assert space.point(dict(space.parameters(point))) == point
        assert all(0 <= feature <= 1 for feature in space.features(point))
    assert judges.priced(space.base) == BucketService(evaluator.question).priced(space.pools(space.base))


def test_a_bucket_may_be_parted_and_every_prompt_still_has_servers() -> None:
    scenario = asked(40, routing={"most": 2, "policy": "least_work"})
    evaluator, space, judges = _space(scenario)
    replay, ranges = PooledReplay(evaluator.question), evaluator.question.workload.ranges
    moves = list(neighbours(space, [space.base], [], 80, Random(1)))
    parted = [p for _, p in moves if len({pool.start for pool in space.pools(p) if pool.phase is Phase.PREFILL}) == 2]
    assert parted
    for point in parted[:5]:
        fleet = replay.fleet(judges.priced(point).pools)
        assert fleet.intervals[0].start == 0
        assert fleet.intervals[-1].end == ranges[-1].end
        assert all(interval.prefill and interval.decode for interval in fleet.intervals)
        for phase in ("prefill", "decode"):
            shares = [sum(row.share for row in getattr(interval, phase)) for interval in fleet.intervals]
            assert shares == pytest.approx([1.0] * len(shares))


def test_where_nothing_is_left_to_try_the_search_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay_rounds, "neighbours", lambda *_: iter(()))
    only = plan(asked())
    assert len(only.search.trials) == 1
    assert replayed_of(only).candidate is None
    assert "none of 1 candidate" in summary(only)


def test_a_trace_is_replayed_itself_and_asked_for_where_it_is_lost() -> None:
    rng = Random(0)
    trace = RequestTrace(
        name="mine",
        arrival_s=[0.05 * k for k in range(500)],
        input_tokens=[rng.randint(600, 1900) for _ in range(500)],
        output_tokens=[rng.randint(80, 200) for _ in range(500)],
    )
    scenario = asked()
    of_trace = replace(scenario, objective=replace(scenario.objective, drawn_from=DrawnFrom.TRACE), trace=trace)
    question = posed(of_trace)
    pools = solve_buckets(Evaluator(question)).priced
    replay = PooledReplay(question)
    result = replay.at(replay.fleet(pools.pools), 0.5 * pools.rate_rps, (0,), 1000)
    assert result.holds
    assert "trace" in result.arrivals
    with pytest.raises(InputError, match="must be a trace") as caught:
        find_replayed(Evaluator(posed(replace(of_trace, trace=None))), lambda *_: None)
    assert "--resume" in caught.value.hint
