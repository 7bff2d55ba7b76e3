"""Plans whose servers may do both phases: priced as they stand, never above their bound, never worse for the choice."""

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pipeline_scenarios import bucketed

from planner.cost import rate_band
from planner.domain import PHASES, Assignment, BucketPlan, LoadPoint, Phase, Plan, Scenario, ServingForm, halves_of
from planner.domain.serving.routing import SPLIT_BIAS
from planner.errors import InfeasibleError
from planner.evaluation.buckets.prices import BucketPrices
from planner.evaluation.buckets.service import BucketService
from planner.files.plan.plan_document import encode_plan
from planner.files.plan.plan_reader import decode_plan
from planner.pipeline import check, plan
from planner.plans.rate_bands import uncertain_rate
from planner.proposing.rate_bands import uncertain_rate_of_pools
from planner.workload import question_of

PATIENT = {"ttft_ms": 6000, "tpot_ms": 100, "percentile": 99}
LLAMA = {
    "model": "llama-3.1-70b",
    "workload": "azure-conv-2023",
    "search": {"timings": False},
    "ranges": {"width": 2048},
}
CASES: dict[str, dict[str, Any]] = {
    "aggregated": {"inventory": {"H100": 8}, "slo": PATIENT, "serving": "aggregated"},
    "mixed wins": {"inventory": {"H100": 4}, "slo": PATIENT, "serving": "auto"},
    "split wins": {"inventory": {"H100": 8}, "slo": {**PATIENT, "tpot_ms": 20}, "serving": "auto"},
    "beside each other": {
        "inventory": {"H100": 20},
        "slo": {**PATIENT, "tpot_ms": 55},
        "serving": "auto",
        "simplicity": 0,
    },
    "no levels": {"inventory": {"H100": 8, "H20": 8}, "serving": "auto"},
    "mean": {"inventory": {"H100": 8}, "slo": {"ttft_ms": 3000, "tpot_ms": 60}, "serving": "auto"},
    "survives": {
        "inventory": {"H100": 24},
        "slo": PATIENT,
        "serving": "auto",
        "survive": {"nodes": 1, "share": 0.5},
    },
}
each_case = pytest.mark.parametrize("name", CASES)


def scenario(**changes: Any) -> Scenario:
    document = {**LLAMA, **changes}
    inventory = document.pop("inventory")
    return bucketed(inventory, **document)


@cache
def planned(name: str) -> Plan:
    """Both forms beside each other seldom win by the margin: there it is taken away."""
    margin = 0.0 if name == "beside each other" else SPLIT_BIAS
    with patch("planner.domain.serving.routing.SPLIT_BIAS", margin):
        return plan(scenario(**CASES[name]))


def pools_of(planned_case: Plan) -> BucketPlan:
    assert planned_case.buckets is not None
    return planned_case.buckets


def phases_of(planned_case: Plan) -> set[Phase]:
    return {pool.phase for pool in pools_of(planned_case).pools}


def service(planned_case: Plan) -> BucketService:
    return BucketService(question_of(planned_case.scenario))


def rate_of(**changes: Any) -> float:
    try:
        return plan(scenario(**changes)).throughput_rps
    except InfeasibleError:
        return 0.0


@each_case
def test_what_a_plan_says_follows_from_its_pools(name: str) -> None:
    case = planned(name)
    priced = service(case).priced(replace(pool, share=1.0) for pool in pools_of(case).pools)
    assert priced.rate_rps == pytest.approx(case.throughput_rps)
    for mine, told in zip(priced.pools, pools_of(case).pools, strict=True):
        assert mine.share == pytest.approx(told.share)
        assert mine.capacity_rps == pytest.approx(told.capacity_rps)


@each_case
def test_requests_go_to_the_same_mixed_pools_in_both_phases(name: str) -> None:
    case = planned(name)
    shares = {phase: {r.island: r.share for r in case.routing if r.phase is phase} for phase in PHASES}
    for pool in pools_of(case).pools:
        assert [pool.island in shares[phase] for phase in PHASES] == [pool.serves(phase) for phase in PHASES]
        if pool.phase is Phase.MIXED:
            assert shares[Phase.PREFILL][pool.island] == shares[Phase.DECODE][pool.island]
    for phase in PHASES:
        for start in {pool.start for pool in pools_of(case).pools if pool.serves(phase)}:
            total = sum(pool.share for pool in pools_of(case).pools if pool.serves(phase) and pool.start == start)
            assert total == pytest.approx(1.0)


@pytest.mark.parametrize("name", ["aggregated", "split wins", "no levels"])
def test_the_band_of_a_rate_is_of_what_its_servers_do(name: str) -> None:
    """Servers of one type that do both phases err once, in both: as far as aggregated runs did."""
    case = planned(name)
    estimates = {(estimate.gpu, estimate.phase): estimate.band for estimate in case.provenance.estimates}
    assert set(estimates) == {(pool.gpu, pool.phase) for pool in pools_of(case).pools}
    if set(estimates) == {("H100", Phase.MIXED)}:
        band = estimates["H100", Phase.MIXED]
        assert "of aggregated serving" in band.basis
        ends = [end * case.throughput_rps for end in (band.low, band.high)]
        assert [case.rate_band.low_rps, case.rate_band.high_rps] == pytest.approx(ends, rel=1e-4)
    kinds = {(share.gpu, share.phase, share.whose) for share in uncertain_rate(case).shares}
    assert kinds == {(gpu, half, phase) for gpu, phase in estimates for half in halves_of(phase)}
    rates = {"throughput_rps": case.throughput_rps, "prefill_rps": case.prefill_rps, "decode_rps": case.decode_rps}
    solved = Assignment(duties=(), objective_rps=case.objective_rps, pools=pools_of(case).pools, **rates)
    of_frontier = rate_band(uncertain_rate_of_pools(question_of(case.scenario), solved))
    assert of_frontier.low_rps == pytest.approx(case.rate_band.low_rps, rel=0.02)  # means of ranges, not of buckets
    assert of_frontier.basis == case.rate_band.basis


@each_case
def test_no_plan_is_above_its_bound(name: str) -> None:
    certificate = planned(name).certificate
    assert certificate.objective_bound is not None
    assert planned(name).throughput_rps <= certificate.objective_bound * (1 + 1e-9)


@each_case
def test_a_plan_is_read_back_as_it_was_written(name: str, tmp_path: Path) -> None:
    text = encode_plan(planned(name))
    assert decode_plan(text, origin=tmp_path / "plan.json") == planned(name)


@each_case
def test_one_phase_alone_gets_faster_only_where_it_runs_alone(name: str) -> None:
    sensitivity = planned(name).sensitivity
    assert [worth.phase for worth in sensitivity.phases] == (
        [] if Phase.MIXED in phases_of(planned(name)) else [*PHASES]
    )
    assert sensitivity.bound_rps >= planned(name).throughput_rps * (1 - 1e-9)


def test_each_kind_of_plan_is_among_the_cases() -> None:
    assert phases_of(planned("aggregated")) == {Phase.MIXED}
    assert phases_of(planned("mixed wins")) == {Phase.MIXED}
    assert phases_of(planned("split wins")) == set(PHASES)
    assert phases_of(planned("beside each other")) == set(Phase)


@pytest.mark.parametrize(("gpus", "tpot_ms"), [(4, 60), (8, 30)])
def test_free_choice_splits_where_that_wins_by_more_than_the_bias_towards_it(gpus: int, tpot_ms: float) -> None:
    case = {"inventory": {"H100": gpus}, "slo": {**PATIENT, "tpot_ms": tpot_ms}, "simplicity": 0}
    aggregated, split = (rate_of(**case, serving=form) for form in ("aggregated", "split"))
    free = plan(scenario(**case, serving="auto"))
    forms, bucket_plan = pools_of(free).forms, pools_of(free)
    assert forms.margin == SPLIT_BIAS
    assert (forms.chosen is ServingForm.AGGREGATED) == all(p.phase is Phase.MIXED for p in bucket_plan.pools)
    assert free.throughput_rps <= forms.own_bound * (1 + 1e-6)
    if forms.chosen is ServingForm.AGGREGATED:
        assert free.throughput_rps == pytest.approx(aggregated, rel=0.01)
        assert free.certificate.objective_bound == pytest.approx(max(forms.own_bound, free.throughput_rps))
        assert "the bound is of aggregated pools that can be deployed" in free.certificate.note
        assert split <= min(forms.other_bound or 0.0, aggregated * (1 + SPLIT_BIAS)) * (1 + 1e-6)
    else:
        assert free.throughput_rps >= 0.98 * max(split, aggregated * (1 + SPLIT_BIAS))
        assert forms.other_value == pytest.approx(aggregated or None, rel=0.01)


@pytest.mark.parametrize("name", [name for name in CASES if name != "no levels"])  # where queues have no end
def test_requests_take_longer_at_higher_rates(name: str) -> None:
    case = planned(name)
    tables = [
        service(case).latencies(pools_of(case).pools, {LoadPoint.PROMISE: part * case.throughput_rps})
        for part in (0.2, 0.6, 0.9, 1.0)
    ]
    for slower, faster in zip(tables[1:], tables, strict=False):
        for row, other in zip(slower, faster, strict=True):
            for late, early in ((row.p50_ms, other.p50_ms), (row.late_ms, other.late_ms)):
                assert late is not None
                assert early is not None
                assert late >= early * (1 - 1e-6)


@pytest.mark.parametrize("name", ["aggregated", "mixed wins", "beside each other"])
def test_the_levels_are_kept_at_capacity(name: str) -> None:
    case = planned(name)
    slo = case.scenario.slo
    for row in pools_of(case).latencies:
        if row.load is LoadPoint.CAPACITY:
            bound = slo.ttft_ms if row.phase is Phase.PREFILL else slo.tpot_ms
            assert bound is not None
            assert row.late_ms is not None
            assert row.late_ms <= bound * 1.001


def test_what_survives_is_what_was_asked_for() -> None:
    case = planned("survives")
    assert pools_of(case).worst_loss.rate_rps >= 0.5 * case.throughput_rps * (1 - 1e-6)


@pytest.mark.parametrize("command", [check, plan], ids=["check", "plan"])
def test_a_fleet_too_small_to_split_names_the_smallest_that_could(command: Any) -> None:
    small = bucketed({"H200": 8}, workload="azure-conv-2023", slo=PATIENT)
    with pytest.raises(InfeasibleError, match="The smallest fleet that can be split is 16 H200") as refused:
        command(small)
    assert "serving to auto" in (refused.value.hint or "")


def test_it_serves_where_it_need_not_be_split() -> None:
    assert plan(bucketed({"H200": 8}, workload="azure-conv-2023", slo=PATIENT, serving="auto")).throughput_rps > 5


def test_levels_that_no_mixed_server_reaches_are_told() -> None:
    tight = {"inventory": {"H100": 8}, "slo": {"tpot_ms": 2, "percentile": 99}, "serving": "aggregated"}
    with pytest.raises(InfeasibleError, match="mixed: memory suffices, the service levels are not reached"):
        plan(scenario(**tight))


def require_below_the_bound(seed: int, name: str) -> bool:
    """Whatever servers are put behind whatever buckets: together they serve no more than the plan's bound. Says whether
    the servers drawn serve every bucket."""
    case, rng, prices = planned(name), np.random.default_rng(seed), prices_of(name)
    certificate = case.certificate
    assert certificate.objective_bound is not None
    items = prices.question.scenario.inventory.items
    simplest = prices.partitions[: 1 + int(rng.integers(len(prices.partitions)))]
    partition = simplest[0] if rng.random() < 0.5 else simplest[-1]
    drawn_phases = [(Phase.MIXED,), PHASES, tuple(Phase)][int(rng.integers(3))]
    left = {item.gpu.name: item.count for item in items}
    pools = []
    for phase in map(Phase, rng.permutation([phase.value for phase in drawn_phases])):
        for bucket in partition.of(phase):
            gpu = items[int(rng.integers(len(items)))].gpu.name
            drawn = drawn_pool(prices, gpu, phase, bucket, left[gpu], rng)
            if drawn is not None:
                left[gpu] -= drawn.gpus
                pools.append(drawn)
    served = {phase: {pool.start for pool in pools if pool.serves(phase)} for phase in PHASES}
    complete = all(len(served[phase]) == len(partition.of(phase)) for phase in PHASES)
    if complete:
        assert service(case).priced(pools).rate_rps <= certificate.objective_bound * (1 + 1e-6)
    return complete


DRAWN = ("mixed wins", "split wins", "beside each other", "mean")


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 10_000), name=st.sampled_from(DRAWN))
def test_no_pools_drawn_at_random_pass_the_bound(seed: int, name: str) -> None:
    require_below_the_bound(seed, name)


@pytest.mark.study
@pytest.mark.parametrize("name", DRAWN)
def test_none_of_many_pools_drawn_at_random_pass_the_bound(name: str) -> None:
    assert sum(require_below_the_bound(seed, name) for seed in range(500)) >= 125


@cache
def prices_of(name: str) -> BucketPrices:
    return BucketPrices(question_of(planned(name).scenario))


def drawn_pool(prices: BucketPrices, gpu: str, phase: Phase, bucket: int, gpus: int, rng: np.random.Generator) -> Any:
    column = prices.column(gpu, phase)
    rows = [
        row
        for row in np.flatnonzero(column.capped[:, bucket] > 0).tolist()
        if column.config(row, bucket).parallel.devices <= gpus
    ]
    if not rows:
        return None
    row = rows[int(rng.integers(len(rows)))]
    config = column.config(row, bucket)
    most = max(1, gpus // config.parallel.devices // 2)
    return prices.pool(gpu, phase, bucket, row, int(rng.integers(1, most + 1)))
