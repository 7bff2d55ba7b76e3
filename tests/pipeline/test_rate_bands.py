"""How far a plan's rate may be off, and which of two plans is faster: theory on edited plans, then whole ones."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from pipeline_scenarios import small

from planner.domain import PHASES, Band, ClassPerformance, CostMode, CostSettings, Phase, Plan, RateBand
from planner.errors import InputError
from planner.evaluation.evaluator import open_evaluator
from planner.evaluation.judging import judge
from planner.files.plan.plan_document import encode_plan
from planner.files.plan.plan_reader import decode_plan
from planner.pipeline import plan as planned
from planner.plans.rate_bands import compare_rates, probability_better, rate_band, uncertain_rate
from planner.proposing.feasibility import posed
from planner.proposing.rate_bands import uncertain_rate as rate_of_assignment

BAND = Band(low=0.7, high=1.4, basis="made up", points=9)


def banded(plan: Plan, **bands: Band | None) -> Plan:
    """The plan with other bands for a phase, its rate's band drawn anew."""
    estimates = tuple(replace(e, band=bands.get(e.phase.value, e.band)) for e in plan.provenance.estimates)
    changed = replace(plan, provenance=replace(plan.provenance, estimates=estimates))
    return replace(changed, rate_band=rate_band(changed))


def scaled(plan: Plan, factor: float) -> Plan:
    """The plan with every rate of its islands multiplied."""
    routing = tuple(
        replace(
            r, rate_rps=r.rate_rps * factor, assigned_rps=r.assigned_rps * factor, capacity_rps=r.capacity_rps * factor
        )
        for r in plan.routing
    )
    rates = {name: getattr(plan, name) * factor for name in ("throughput_rps", "prefill_rps", "decode_rps")}
    changed = replace(plan, routing=routing, **rates)
    return replace(changed, rate_band=rate_band(changed))


def faster(row: ClassPerformance, gpu: str, factor: float) -> ClassPerformance:
    """The row of an island class, its rates of prefill multiplied where it is of that type."""
    rates = tuple(rate * (factor if row.island.gpu == gpu else 1.0) for rate in row.prefill.rates_rps)
    return replace(row, prefill=replace(row.prefill, rates_rps=rates))


@pytest.fixture(scope="module")
def one_type() -> Plan:
    return planned(small({"H100": 64}))


class TestTheory:
    def test_of_one_type_whose_other_phase_never_binds_the_band_is_the_phases(self, one_type: Plan) -> None:
        free = replace(one_type, decode_rps=1e6 * one_type.prefill_rps, throughput_rps=one_type.prefill_rps)
        band = banded(free, prefill=BAND).rate_band
        assert band.low_rps == pytest.approx(0.7 * free.throughput_rps, rel=1e-4)
        assert band.high_rps == pytest.approx(1.4 * free.throughput_rps, rel=1e-4)

    def test_rates_scaled_scale_the_band(self, example: Plan) -> None:
        before, after = example.rate_band, scaled(example, 3.0).rate_band
        assert (after.low_rps, after.high_rps) == pytest.approx((3 * before.low_rps, 3 * before.high_rps))
        assert after.basis == before.basis

    def test_shares_of_work_add_up_in_each_phase(self, example: Plan) -> None:
        shares = uncertain_rate(example).shares
        for phase in PHASES:
            assert sum(s.share for s in shares if s.phase is phase) == pytest.approx(1)
            used = {island.gpu for island in example.islands if island.phase is phase}
            assert {s.gpu for s in shares if s.phase is phase} == used

    def test_a_plan_and_its_assignment_tell_the_same(self, example: Plan) -> None:
        with open_evaluator(posed(example.scenario)) as evaluator:
            trial = next(t for t in example.search.trials if t.index == example.search.best_trial)
            assignment = evaluator.evaluate(trial.layout).assignment
            assert assignment is not None
            came, due = rate_of_assignment(evaluator.table(trial.layout), assignment), uncertain_rate(example)
        assert came.rate_rps == pytest.approx(due.rate_rps)
        assert dict(came.utilisations) == pytest.approx(dict(due.utilisations))
        shares = {(s.gpu, s.phase): s.share for s in due.shares}
        assert {(s.gpu, s.phase): s.share for s in came.shares} == pytest.approx(shares, abs=0.03)  # means, midpoints

    @pytest.mark.parametrize("factor", [0.7, 1.4])
    def test_capacity_is_linear_in_the_error_of_a_type_as_load_shifts(self, example: Plan, factor: float) -> None:
        """The work that a type does is what its error counts for: assigning anew by the changed rates says so, too."""
        with open_evaluator(posed(example.scenario)) as evaluator:
            trial = next(t for t in example.search.trials if t.index == example.search.best_trial)
            table = evaluator.table(trial.layout)
            before = judge(table, trial.layout, evaluator.question).assignment
            assert before is not None
            for share in rate_of_assignment(table, before).shares:
                if share.phase is Phase.PREFILL:
                    changed = replace(table, classes=tuple(faster(row, share.gpu, factor) for row in table.classes))
                    after = judge(changed, trial.layout, evaluator.question).assignment
                    due = 1 + share.share * (factor - 1)
                    assert after.prefill_rps / before.prefill_rps == pytest.approx(due, abs=0.05)

    def test_what_the_network_holds_back_does_not_rise(self, one_type: Plan) -> None:
        held = banded(replace(one_type, network_bottleneck="NICs of H100"), prefill=BAND, decode=BAND)
        assert held.rate_band.high_rps == pytest.approx(one_type.throughput_rps)


class TestWhichIsFaster:
    def test_a_plan_is_as_good_as_itself(self, example: Plan) -> None:
        assert probability_better(example, example) == 0.5

    def test_the_same_islands_at_a_higher_rate_are_faster_for_certain(self, example: Plan) -> None:
        assert probability_better(scaled(example, 1.01), example) == 1
        assert probability_better(example, scaled(example, 1.01)) == 0

    def test_plans_on_other_types_are_not(self, example: Plan, one_type: Plan) -> None:
        level = scaled(one_type, 1.05 * example.throughput_rps / one_type.throughput_rps)
        likely = probability_better(level, example)
        assert likely is not None
        assert 0.2 < likely < 0.9
        assert probability_better(example, level) == pytest.approx(1 - likely)

    def test_rates_of_other_questions_are_not_compared(self, example: Plan, one_type: Plan) -> None:
        assert compare_rates(example, one_type) is None

    def test_both_rates_and_bands_are_told(self, example: Plan) -> None:
        rates = compare_rates(example, scaled(example, 1.03))
        assert rates.change == pytest.approx(0.03)
        assert (rates.old_band, rates.probability_faster) == (example.rate_band, 1)


class TestWholePlans:
    def test_a_plan_has_the_band_that_its_estimates_give(self, example: Plan) -> None:
        assert example.rate_band == rate_band(example)
        assert 0 < example.rate_band.low_rps < example.rate_band.high_rps
        assert all(e.band is not None for e in example.provenance.estimates)

    def test_reference_mode_has_none(self, one_type: Plan) -> None:
        scenario = small({"H100": 64}, cost={"mode": "reference"})
        plan = planned(scenario)
        assert plan.scenario.cost == CostSettings(mode=CostMode.REFERENCE, engine="vllm")
        assert plan.rate_band is None
        assert probability_better(plan, one_type) is None
        rates = compare_rates(plan, one_type)
        assert rates.probability_faster is None

    def test_it_is_read_back(self, one_type: Plan) -> None:
        text = encode_plan(one_type)
        read = decode_plan(text, Path("plan.json"))
        assert read.rate_band == one_type.rate_band
        assert read.provenance.estimates == one_type.provenance.estimates
        assert rate_band(read) == one_type.rate_band

    def test_a_plan_of_before_bands_has_none(self, one_type: Plan) -> None:
        document = {k: v for k, v in json.loads(encode_plan(one_type)).items() if k not in ("digests", "rate_band")}
        for estimate in document["provenance"]["estimates"]:
            del estimate["band"]
        text = json.dumps(document | {"schema_version": 1}).encode()
        read = decode_plan(text, Path("plan.json"))
        assert read.rate_band is None
        assert {e.band for e in read.provenance.estimates} == {None}

    def test_a_band_upside_down_is_refused(self, one_type: Plan) -> None:
        from planner.pipeline import recheck

        turned = replace(one_type, rate_band=RateBand(low_rps=9.0, high_rps=8.0))
        with pytest.raises(InputError, match=r"here: .*rate_band.low_rps must be at most high_rps, 8"):
            recheck(turned, "here")
