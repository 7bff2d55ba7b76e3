"""Servers with so many requests always in flight, against what the cost model says of the same point.

Prompts have one length. Answers are drawn near one, so that sequences do not step in lockstep; groups of requests, one
for each rank, have equal answers, so that all ranks always do the same: that is what the cost model assumes.
"""

from dataclasses import dataclass

import numpy as np
import pytest
from fleets import fleet, prefill_pool

from planner.cost import CostContext
from planner.cost.serving import Buckets, DecodeServers, Levels, MixedServers, PrefillServers
from planner.domain import (
    CostSettings,
    LengthRange,
    ParallelConfig,
    Phase,
    RouterPolicy,
    SloSettings,
    Workload,
    behaviour_of,
)
from planner.domain.arrivals import ReplaySettings
from planner.domain.fleet import Interval, PoolShare, ReplayFleet, ReplayPool
from planner.evaluation.replay.curves import ServerCurves
from planner.files import load_gpu_spec, load_model
from planner.replay.curves import PromptTimes
from planner.replay.engine import Engine
from planner.replay.requests import RequestTable
from planner.units import MS_PER_S

WITHIN = 0.03
WITHIN_RANKS = 0.05  # of several ranks, whose prompts come together by chance
ALL_MIXED = [Interval(start=0, end=10**6, prefill=(PoolShare(pool=0, share=1.0),), decode=())]
PROMPT, ANSWER = 1500, 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A configuration."""

    gpu: str
    model: str
    tp: int
    dp: int
    drafts: int = 0
    engine: str = ""

    @property
    def shape(self) -> ParallelConfig:
        return ParallelConfig(tp=self.tp, dp=self.dp)

    @property
    def context(self) -> CostContext:
        settings = CostSettings(mtp_tokens=self.drafts, engine=self.engine)
        return CostContext(gpu=load_gpu_spec(self.gpu), model=load_model(self.model), settings=settings)

    def pool(self, phase: Phase, budget: int, batch: int) -> ReplayPool:
        curves = ServerCurves(
            context=self.context, shape=self.shape, overlapped=False, workload=WORKLOAD, replay_prefixes=False
        )
        return curves.pool(phase, budget, batch)


WORKLOAD = Workload(
    name="one length",
    ranges=(
        LengthRange(
            start=PROMPT - 1,
            end=PROMPT + 1,
            midpoint=PROMPT,
            probability=1.0,
            mean_input_tokens=float(PROMPT),
            longest_input_tokens=PROMPT,
        ),
    ),
    mean_input_tokens=float(PROMPT),
    mean_output_tokens=float(ANSWER),
    max_output_tokens=ANSWER,
)
BUCKETS = Buckets.of(WORKLOAD, [(0, 1)])
LEVELS = Levels.of(SloSettings(), WORKLOAD)
SERVERS = [
    Server(gpu="H100", model="llama-3.1-70b", tp=4, dp=1),
    Server(gpu="H200", model="deepseek-v3", tp=1, dp=16),
    Server(gpu="H200", model="deepseek-v3", tp=8, dp=1),
    Server(gpu="H100", model="gpt-oss-120b", tp=2, dp=1, engine="vllm"),
]


def closed(of: ReplayFleet, per_rank: int, *, in_flight: int, alike: int = 1) -> tuple[float, float]:
    """(requests/s, mean TPOT) of the middle half of the requests; `alike`: of as many in turn."""
    rng, requests = np.random.default_rng(1), per_rank * alike
    answers = np.round(ANSWER * (1 + 0.3 * (2 * rng.random(per_rank) - 1))).astype(int)
    answers[: in_flight // alike] = rng.integers(2, ANSWER, in_flight // alike)  # out of step with each other
    answers = np.repeat(answers, alike)
    table = RequestTable([0.0] * requests, [PROMPT] * requests, answers.tolist(), of.lengths)
    engine = Engine(of, table, ReplaySettings(router=behaviour_of(RouterPolicy.ROUND_ROBIN)), 0)
    engine.run_closed(in_flight)
    ended = np.sort(np.array(engine.log.ended))
    first, last = requests // 4, 3 * requests // 4
    rate = (last - first) / (ended[last] - ended[first]) * MS_PER_S
    tpot = (np.array(engine.log.ended) - np.array(engine.log.first)) / (answers - 1)
    return float(rate), float(tpot[first:last].mean())


def behind_instant_prefill(pool: ReplayPool) -> ReplayFleet:
    """Prompts are there as soon as they come."""
    instant = prefill_pool(ranks=64, budget=10**9, base_ms=1e-6, ms_per_token=1e-9)
    interval = Interval(
        start=0, end=10**6, prefill=(PoolShare(pool=0, share=1.0),), decode=(PoolShare(pool=1, share=1.0),)
    )
    return fleet([instant, pool], [interval])


@pytest.mark.parametrize("server", SERVERS, ids=lambda server: f"{server.gpu}-{server.model}-tp{server.tp}")
@pytest.mark.parametrize("batch", [8, 64])
def test_decode_servers(server: Server, batch: int) -> None:
    servers = DecodeServers.of(server.context, [(server.shape, False)], BUCKETS, ANSWER)
    _, rate = servers.batches(BUCKETS, LEVELS, only=batch)
    assert rate[0, 0] > 0
    of = behind_instant_prefill(server.pool(Phase.DECODE, 0, batch))
    closed_rate, tpot = closed(of, 12 * batch * server.dp, in_flight=batch * server.dp)
    assert closed_rate == pytest.approx(rate[0, 0], rel=WITHIN)
    assert tpot == pytest.approx(servers.tpot_ms(BUCKETS, rate, np.array([[float(batch)]]), 0.0)[0, 0], rel=WITHIN)


@pytest.mark.parametrize("server", SERVERS, ids=lambda server: f"{server.gpu}-{server.model}-tp{server.tp}")
@pytest.mark.parametrize(("budget", "batch"), [(2048, 16), (2048, 64), (8192, 64)])
def test_mixed_servers(server: Server, budget: int, batch: int) -> None:
    servers = MixedServers.of(server.context, [(server.shape, budget)], BUCKETS, ANSWER)
    _, rate = servers.full_rps(BUCKETS, LEVELS, only=batch)
    assert rate[0, 0] > 0
    of = fleet([server.pool(Phase.MIXED, budget, batch)], ALL_MIXED)
    # a few requests wait, so that a place is never empty
    per_rank = 40 * batch if server.dp == 1 else 12 * batch * server.dp
    closed_rate, tpot = closed(of, per_rank, in_flight=(batch + 3) * server.dp)
    within = WITHIN if server.dp == 1 else WITHIN_RANKS
    assert closed_rate == pytest.approx(rate[0, 0], rel=within)
    expected = servers.tpot_ms(BUCKETS, rate, np.array([[float(batch)]]), 0.0)[0, 0]
    assert tpot == pytest.approx(expected, rel=within + 0.01 * (server.dp > 1))


def test_ranks_that_take_prompts_in_at_different_moments_wait_for_each_other() -> None:
    """Of 16 ranks one has a prompt, and all passes are longer."""
    server, budget, batch = SERVERS[1], 2048, 16
    of = fleet([server.pool(Phase.MIXED, budget, batch)], ALL_MIXED)
    in_flight = (batch + 3) * server.dp
    alike, _ = closed(of, 12 * batch, in_flight=in_flight, alike=server.dp)
    unlike, _ = closed(of, 12 * batch * server.dp, in_flight=in_flight)
    assert 0.3 * alike < unlike < 0.6 * alike


def test_steps_of_few_tokens_take_time_where_collectives_have_a_cliff() -> None:
    """Measured over PCIe, a step of 256 tokens takes more than four of 64."""
    server = Server(gpu="L40S", model="llama-3.1-70b", tp=8, dp=1, engine="vllm")
    times = PromptTimes(server.pool(Phase.PREFILL, 8192, 0).prompts)
    few = [times.step_ms(tokens, ((0, 1.0),), 1.0) for tokens in (0.0, 1.0, 16.0, 64.0, 256.0)]
    assert few == sorted(few)
    assert 0.05 * few[3] < few[0]


@pytest.mark.parametrize("server", SERVERS, ids=lambda server: f"{server.gpu}-{server.model}-tp{server.tp}")
def test_prefill_at_full_pace(server: Server) -> None:
    """Ranks that always have more prompts than their budget."""
    budget = 8192
    servers = PrefillServers.of(server.context, [(server.shape, budget, False)], BUCKETS)
    full = servers.full_rps(BUCKETS)[0, 0]
    pool, count = server.pool(Phase.PREFILL, budget, 0), 400 * server.shape.dp
    of = behind_instant_prefill(pool)
    of = ReplayFleet(
        name="test",
        model="test",
        pools=(pool, server.pool(Phase.DECODE, 0, 4096)),
        intervals=of.intervals,
    )
    table = RequestTable([0.0] * count, [PROMPT] * count, [1] * count, of.lengths)
    engine = Engine(of, table, ReplaySettings(), 0)
    engine.run()
    assert count / max(engine.log.prefilled) * MS_PER_S == pytest.approx(full, rel=WITHIN)
