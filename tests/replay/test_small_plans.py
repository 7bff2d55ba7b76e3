"""Real plans replayed: times at half load, failures, bad input, and the same result of the same seed."""

import json
from dataclasses import replace

import numpy as np
import pytest
from small_plans import small_plan, small_trace

from planner.cost import CostContext
from planner.cost.serving import Buckets, DecodeServers, MixedServers
from planner.domain import (
    PHASES,
    Phase,
    Plan,
    PlannedIsland,
    RequestTrace,
    RouterPolicy,
    SurvivalSettings,
    behaviour_of,
)
from planner.domain.arrivals import ArrivalProcess, ArrivalSettings, Failure, ReplaySettings
from planner.domain.replay import ReplayResult
from planner.errors import InputError
from planner.evaluation.buckets.service import BucketService
from planner.evaluation.replay.fleet import replay_fleet, with_servers
from planner.files.records import record_document
from planner.pipeline import replay, sweep_rates
from planner.proposing.feasibility import posed

LLAMA = "dense, with levels"
TPOT_WITHIN = 0.01


def replayed(name: str, share: float, **changes: object) -> ReplayResult:
    settings = replace(ReplaySettings(seeds=(0,), requests=3000), **changes)  # type: ignore[arg-type]
    case = small_plan(name)
    return replay(case, small_trace(name), settings, share * case.throughput_rps)


def tpot_of_the_cost_model(case: Plan, island: PlannedIsland, rate_rps: float) -> float:
    """At a rate of one server of an island."""
    assert island.parallel is not None
    scenario = case.scenario
    workload = posed(scenario).workload
    buckets = Buckets.of(workload, [(0, len(workload.ranges))])
    context = CostContext(gpu=scenario.inventory.item(island.gpu).gpu, model=scenario.model, settings=scenario.cost)
    shape = replace(island.parallel, replicas=1)
    rate, batch = np.array([[rate_rps]]), np.array([[float(island.batch_size)]])
    longest = workload.max_output_tokens
    servers: DecodeServers | MixedServers
    if island.phase is Phase.MIXED:
        servers = MixedServers.of(context, [(shape, island.tokens_per_step)], buckets, longest)
    else:
        servers = DecodeServers.of(context, [(shape, bool(island.overlapped))], buckets, longest)
    return float(servers.tpot_ms(buckets, rate, batch, 0.0)[0, 0])


def tpot_at(name: str, share: float) -> tuple[float, PlannedIsland, float]:
    """(mean TPOT, the one island that answers, sequences of a rank)."""
    result, case = replayed(name, share), small_plan(name)
    (answering,) = (island for island in case.islands if island.phase in (Phase.DECODE, Phase.MIXED))
    (use,) = (use for use in result.islands if use.island == answering.id)
    assert answering.parallel.replicas == 1
    return result.total.tpot_ms.mean.mean, answering, use.batch.mean


@pytest.mark.parametrize("name", ["one node type, no levels", LLAMA])
def test_tpot_at_half_load(name: str) -> None:
    case = small_plan(name)
    tpot_ms, island, _ = tpot_at(name, 0.5)
    expected = tpot_of_the_cost_model(case, island, 0.5 * case.throughput_rps)
    assert tpot_ms == pytest.approx(expected, rel=TPOT_WITHIN)


def test_a_request_is_one_of_those_that_it_is_answered_with() -> None:
    """The cost model takes the mean number of sequences; whoever comes meets as many and is one more of them, which
    counts where there are few: here 2.6."""
    case = small_plan("aggregated")
    tpot_ms, island, sequences = tpot_at("aggregated", 0.5)
    rate_rps = 0.5 * case.throughput_rps
    mean, more = (tpot_of_the_cost_model(case, island, rate_rps * (1 + k / sequences)) for k in (0, 1))
    assert mean < tpot_ms <= more


def failing(**of_failure: object) -> ReplayResult:
    case = small_plan(LLAMA)
    island = next(island for island in case.islands if island.phase is Phase.DECODE)
    failure = Failure(island=island.id, at_s=400.0, **of_failure)  # type: ignore[arg-type]
    return replayed(LLAMA, 0.5, failures=(failure,), moments=50)


def test_a_failure_of_all_decode_servers_holds_requests_until_they_are_back() -> None:
    healthy, broken = replayed(LLAMA, 0.5, moments=50), failing(nodes=0, back_after_s=120.0)
    assert broken.unfinished == 0
    assert broken.total.requests == healthy.total.requests
    assert healthy.holds
    assert not broken.holds
    assert broken.total.within_levels.mean < healthy.total.within_levels.mean - 0.03
    away = [moment for moment in broken.moments if moment.start_s > 400 and moment.start_s + moment.seconds < 520]
    assert away
    assert all(moment.finished == 0 for moment in away)
    assert all(moment.late == moment.arrived for moment in away)
    last = broken.moments[-10:]
    assert sum(moment.late for moment in last) <= 0.1 * sum(moment.arrived for moment in last)


@pytest.mark.parametrize("name", ["one node type, no levels", LLAMA])
def test_a_node_takes_the_servers_that_the_losses_told_count(name: str) -> None:
    """Without them the pools serve what is told to remain."""
    case = small_plan(name)
    question = posed(replace(case.scenario, survive=SurvivalSettings()))
    for loss in case.buckets.losses:
        failure = with_servers(Failure(island=loss.island, at_s=1.0, nodes=loss.nodes), case)
        gone = dict(failure.servers)
        assert gone[loss.island] == loss.servers
        left = [replace(pool, count=pool.count - gone.get(pool.island, 0)) for pool in case.buckets.pools]
        remaining = BucketService(question).priced([pool for pool in left if pool.count])
        phases = {pool.phase for pool in left if pool.count}
        served = remaining.rate_rps if {*PHASES} <= phases or Phase.MIXED in phases else 0.0
        assert served == pytest.approx(loss.rate_rps)


def test_servers_are_back_when_their_weights_are_loaded() -> None:
    """All four GPUs of the server read their shares of the weights: two bytes for each of 71 billion parameters, or one
    where the GPU computes in 8 bits, and a little that every GPU has."""
    fast, slow = (reload_s(storage_gb_s) for storage_gb_s in (2.0, 1.0))
    assert slow == pytest.approx(2 * fast)
    assert 71 / 2 <= fast <= 1.1 * 142 / 2


def reload_s(storage_gb_s: float) -> float:
    case = small_plan(LLAMA)
    of = replay_fleet(case, posed(case.scenario).workload, replay_prefixes=False, storage_gb_s=storage_gb_s)
    return next(pool.reload_s for pool in of.pools if pool.phase is Phase.DECODE)


def test_the_same_seed_gives_the_same_bytes() -> None:
    def words(seed: int) -> str:
        return json.dumps(record_document(replace(replayed(LLAMA, 0.8, seeds=(seed,), requests=1000), seeds=())))

    assert words(3) == words(3)
    assert words(3) != words(4)


def test_a_sweep_finds_a_rate_near_what_the_plan_promises() -> None:
    case = small_plan(LLAMA)
    settings = ReplaySettings(seeds=(0,), requests=2000)
    swept = sweep_rates(case, small_trace(LLAMA), settings)
    assert swept.held_rps is not None
    assert 0.8 * case.throughput_rps < swept.held_rps < 1.3 * case.throughput_rps
    rates = [result.rate_rps for result in swept.results]
    assert rates == sorted(rates)
    assert all(result.holds for result in swept.results if result.rate_rps <= swept.held_rps)
    above = [result for result in swept.results if result.rate_rps > swept.held_rps]
    assert not above[0].holds
    assert above[0].rate_rps - swept.held_rps <= swept.step_rps + 1e-9


def test_without_levels_a_fleet_that_cannot_keep_up_does_not_hold() -> None:
    assert replayed("one node type, no levels", 0.9).holds
    beyond = replayed("one node type, no levels", 1.3)
    assert beyond.unfinished
    assert not beyond.holds


@pytest.mark.parametrize("rate_rps", [0.0, -1.0, float("nan"), float("inf")])
def test_a_rate_that_is_none_is_refused(rate_rps: float) -> None:
    with pytest.raises(InputError, match="rate"):
        replay(small_plan(LLAMA), small_trace(LLAMA), ReplaySettings(), rate_rps)


def test_a_failure_of_no_island_is_refused() -> None:
    settings = ReplaySettings(failures=(Failure(island="nowhere", at_s=1.0),))
    with pytest.raises(InputError, match="nowhere") as refused:
        replay(small_plan(LLAMA), small_trace(LLAMA), settings, 1.0)
    assert refused.value.hint is not None
    assert small_plan(LLAMA).islands[0].id in refused.value.hint


def test_seeds_of_none_are_refused() -> None:
    with pytest.raises(InputError, match="seeds"):
        replay(small_plan(LLAMA), small_trace(LLAMA), ReplaySettings(seeds=()), 1.0)


def longer(share: float) -> RequestTrace:
    """A trace of which so many prompts are longer than the plan serves."""
    trace = small_trace(LLAMA)
    end = max(route.range_end for route in small_plan(LLAMA).routing)
    count = round(share * len(trace.input_tokens))
    return replace(trace, input_tokens=[end] * count + list(trace.input_tokens[count:]))


def test_prompts_that_the_plan_does_not_serve_are_left_out_and_counted() -> None:
    result = replay(small_plan(LLAMA), longer(0.25), ReplaySettings(seeds=(0,), requests=2000), 2.0)
    assert dict(result.left_out) == {"with prompts longer than the plan serves": 1500}
    assert result.total.requests == 1800
    assert result.total.rate_rps == pytest.approx(2.0, rel=0.05)


def test_a_trace_of_such_prompts_alone_is_refused() -> None:
    with pytest.raises(InputError, match="longer"):
        replay(small_plan(LLAMA), longer(1.0), ReplaySettings(), 2.0)


@pytest.mark.parametrize("requests", [1, 2, 3])
def test_a_few_requests(requests: int) -> None:
    """The last one always counts, however long the warm-up."""
    settings = ReplaySettings(seeds=(0,), requests=requests, warm_up=0.99)
    result = replay(small_plan(LLAMA), small_trace(LLAMA), settings, 2.0)
    assert result.total.requests == 1
    assert result.total.ttft_ms is not None


def test_a_trace_that_is_shorter_than_what_is_asked_for() -> None:
    trace = small_trace(LLAMA)
    short = replace(
        trace,
        arrival_s=trace.arrival_s[:5],
        input_tokens=trace.input_tokens[:5],
        output_tokens=trace.output_tokens[:5],
    )
    for process in (ArrivalProcess.POISSON, ArrivalProcess.TRACE):
        settings = ReplaySettings(seeds=(0,), requests=1000, arrivals=ArrivalSettings(process=process))
        result = replay(small_plan(LLAMA), short, settings, 2.0)
        assert result.total.requests >= 1
        assert np.isfinite(result.total.rate_rps)


@pytest.mark.parametrize("policy", list(RouterPolicy))
def test_every_policy_serves_all(policy: RouterPolicy) -> None:
    result = replayed(LLAMA, 0.7, router=behaviour_of(policy), requests=500)
    assert result.unfinished == 0
    assert result.total.requests == 450
