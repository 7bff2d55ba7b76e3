"""Servers that do both phases: rates, mixes, bounds, each worked out once more for one server and one bucket."""

import math
from dataclasses import replace

import numpy as np
import pytest
from cost_figures import gpu, model
from cost_workloads import workload
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.cost import CostContext
from planner.cost.benchmarks.engines import engine_shares
from planner.cost.mixed import Passes, mixed_cost
from planner.cost.serving import Arrivals, Buckets, DecodeServers, Levels, MixedServers, late_share
from planner.cost.serving.decode_servers import BATCHES
from planner.domain import CostSettings, ParallelConfig, ServerConfig, SloSettings
from planner.errors import InputError

LOAD = workload((128, 1024, 4096, 7000), (0.4, 0.3, 0.2, 0.1), mean_output_tokens=200, max_output_tokens=1000)
INTERVALS = [(0, 4), (0, 2), (2, 4), (0, 1), (1, 2), (2, 3), (3, 4)]
ALONE = {j: row for row, (j, after) in enumerate(INTERVALS) if after == j + 1}
BUCKETS = Buckets.of(LOAD, INTERVALS)
SLO = SloSettings(ttft_ms=3000, tpot_ms=50, percentile=99)
LEVELS = Levels.of(SLO, LOAD)
NO_LEVELS = Levels.of(SloSettings(), LOAD)
CONTEXT = CostContext(gpu=gpu("H200"), model=model("deepseek-v3"), settings=CostSettings())
OPTIONS = [(ParallelConfig(tp=tp, dp=dp), budget) for tp, dp in ((1, 8), (2, 8), (8, 1)) for budget in (2048, 16384)]


def servers_of(context: CostContext = CONTEXT, buckets: Buckets = BUCKETS) -> MixedServers:
    return MixedServers.of(context, OPTIONS, buckets, LOAD.max_output_tokens)


SERVERS = servers_of()
BATCH, FULL = SERVERS.full_rps(BUCKETS, LEVELS)
TOGETHER = FULL[0] * 6


class Group:
    """One attention group with prompts of one length, by scalars."""

    def __init__(self, context: CostContext, option: tuple[ParallelConfig, int], prompt: float, hit: float) -> None:
        self.context, self.shape, self.budget = context, option[0], option[1]
        self.prompt, self.hit, self.answer = prompt, hit, float(LOAD.mean_output_tokens)
        settings = context.settings
        self.gain = sum(settings.mtp_acceptance**k for k in range(settings.mtp_tokens + 1))

    def ms(self, sequences: float, chunk: float) -> float:
        passes = Passes(
            tp=np.array(float(self.shape.tp)),
            dp=np.array(float(self.shape.dp)),
            sequences=np.array(sequences),
            cached=np.array(self.prompt + (self.answer - 1) / 2),
            chunk=np.array(chunk),
            prompt=np.array(self.prompt),
            hit=self.hit,
        )
        return float(mixed_cost(self.context, passes).total_ms)

    def chunk(self, sequences: float) -> float:
        """Tokens that count of a pass with prompts: where there are several ranks, the mean of mean and fullest one."""
        fresh, begun = self.prompt * (1 - self.hit), sequences * self.gain / self.answer
        if self.shape.dp == 1:
            return min(self.budget, fresh * max(1.0, begun))
        piece = min(fresh, self.budget)
        mean = min(self.budget, begun * fresh / self.some(sequences))
        spread = min(piece, math.sqrt(2 * math.log(self.shape.dp) * mean * piece))
        return (mean + min(self.budget, max(piece, mean + spread))) / 2

    def some(self, sequences: float) -> float:
        """Passes that some rank takes a piece of a prompt in with."""
        fresh, begun = self.prompt * (1 - self.hit), sequences * self.gain / self.answer
        return 1 - math.exp(-self.shape.dp * begun * max(1.0, fresh / self.budget))

    def passes(self, sequences: float) -> float:
        """f: passes with prompts for each pass of the sequences."""
        fresh, begun = self.prompt * (1 - self.hit), sequences * self.gain / self.answer
        if self.shape.dp == 1:
            return begun * fresh / self.chunk(sequences)
        return max(self.some(sequences), begun * fresh / self.budget)

    def tpot_ms(self, sequences: float) -> float:
        """(T(b) + f (T(c) + T(b, c) - T(b)) / 2) / g."""
        chunk, decode = self.chunk(sequences), self.ms(sequences, 0.0)
        passes = self.passes(sequences)
        added = self.ms(0.0, chunk) + max(0.0, self.ms(sequences, chunk) - decode)
        return (decode + passes * added / 2) / self.gain

    def left_ms(self, sequences: float) -> tuple[float, float]:
        """Mean and mean square of what is left of a pass, of the passes' squares and cubes over their lengths."""
        chunk, decode = self.chunk(sequences), self.ms(sequences, 0.0)
        passes = self.passes(sequences)
        mixed, apart, pass_ms = self.ms(sequences, chunk), self.ms(0.0, chunk), self.gain * self.tpot_ms(sequences)
        squares, cubes = (decode**k + passes * (apart**k + max(0.0, mixed**k - decode**k)) / 2 for k in (2, 3))
        return squares / (2 * pass_ms), cubes / (3 * pass_ms)

    def tpot_at_rate_ms(self, rate: float) -> float:
        """T with b = r D T sequences in answer, found by going round."""
        tpot, before = self.tpot_ms(1.0), 0.0
        for _ in range(200):
            if abs(tpot - before) < 1e-9 * tpot:
                break
            before = tpot
            tpot = (tpot + self.tpot_ms(max(1.0, rate / self.shape.dp * self.answer * tpot / 1000))) / 2
        return tpot


CASES = [
    pytest.param(CostSettings(), id="plain"),
    pytest.param(CostSettings(mtp_tokens=2), id="drafts"),
    pytest.param(CostSettings(kv_cache_rate=0.5), id="prefixes cached"),
]


@pytest.mark.parametrize("chosen", CASES)
class TestOneLength:
    def test_the_rate_of_a_batch(self, chosen: CostSettings) -> None:
        """1000 dp b / (D T)."""
        context = replace(CONTEXT, settings=chosen)
        buckets = Buckets.of(LOAD, INTERVALS)
        servers = servers_of(context, buckets)
        for batch in (1, 16, 64):
            fits, rates = servers.full_rps(buckets, NO_LEVELS, batch)
            for row, option in enumerate(OPTIONS):
                for j, bucket in ALONE.items():
                    group = Group(context, option, LOAD.ranges[j].mean_input_tokens, chosen.kv_cache_rate)
                    expected = 1000 * option[0].dp * batch / (group.answer * group.tpot_ms(batch))
                    assert fits[row, bucket] in (0, batch)
                    if fits[row, bucket]:
                        assert rates[row, bucket] == pytest.approx(expected, rel=2e-3)

    def test_the_time_per_token_at_a_rate(self, chosen: CostSettings) -> None:
        """The fixed point of T = step(b, r L T), b = r D T; between batches as far apart as 4, 8 and 16 by lines."""
        context = replace(CONTEXT, settings=chosen)
        buckets = Buckets.of(LOAD, INTERVALS)
        servers = servers_of(context, buckets)
        batch, full = servers.full_rps(buckets, LEVELS)
        times = servers.tpot_ms(buckets, 0.7 * full, batch, 0.0)
        for row, option in enumerate(OPTIONS):
            for j, bucket in ALONE.items():
                group = Group(context, option, LOAD.ranges[j].mean_input_tokens, chosen.kv_cache_rate)
                if batch[row, bucket] > 2:
                    expected = group.tpot_at_rate_ms(0.7 * float(full[row, bucket]))
                    assert times[row, bucket] == pytest.approx(expected, rel=0.03)

    def test_the_time_to_the_first_token_where_nobody_waits(self, chosen: CostSettings) -> None:
        """Fixed time, own chunks, and so many times per token."""
        context, shares = replace(CONTEXT, settings=chosen), engine_shares("", None)
        buckets = Buckets.of(LOAD, INTERVALS)
        servers = servers_of(context, buckets)
        batch, full = servers.full_rps(buckets, NO_LEVELS, 16)
        service, rho, _, left = servers.queue(buckets, full, full, full.max(axis=0))
        times = servers.tpot_ms(buckets, full, batch, 0.0)
        for row, option in enumerate(OPTIONS):
            for j, bucket in ALONE.items():
                group = Group(context, option, LOAD.ranges[j].mean_input_tokens, chosen.kv_cache_rate)
                if not batch[row, bucket]:
                    continue
                fresh, chunk = group.prompt * (1 - group.hit), group.chunk(16.0)
                of_prompt = group.passes(16.0) / (16.0 * group.gain / group.answer)
                chunks = max(np.ceil(fresh / group.budget), fresh / max(chunk, fresh / of_prompt))
                tpot = float(times[row, bucket])
                own = shares.ttft_steps * chunks * group.ms(0.0, chunk)
                expected = shares.ttft_fixed_ms + own + shares.ttft_answers * tpot
                assert service[row, bucket, j] == pytest.approx(expected, rel=2e-3)
                busy = (group.ms(0.0, group.budget) + group.ms(16.0, group.budget)) / 2 * fresh / group.budget
                filled = full[row, bucket] / option[0].dp * busy / 1000
                assert rho[row, bucket] == pytest.approx(min(1.0, filled), rel=2e-3)
                mean, square = group.left_ms(16.0)
                assert left.mean_ms[row, bucket] == pytest.approx(mean, rel=2e-3)
                even = left.chance[row, bucket] * left.cycle_ms[row, bucket] ** 2 / 3
                assert even == pytest.approx(square, rel=2e-3)


def test_a_buckets_rate_is_the_harmonic_mean_of_its_ranges_at_the_same_batch() -> None:
    """Of a server of one rank; of several, long prompts fill one rank while the others wait."""
    several = np.array([shape.dp > 1 for shape, _ in OPTIONS])
    assert several.any()
    assert not several.all()
    for batch in (1, 8, 32):
        fits, rates = SERVERS.full_rps(BUCKETS, NO_LEVELS, batch)
        for bucket, (first, after) in enumerate(INTERVALS):
            ranges = range(first, after)
            alone = np.array([rates[:, ALONE[j]] for j in ranges]).T
            weights = BUCKETS.weights[bucket][list(ranges)]
            both = (fits[:, bucket] > 0) & (alone > 0).all(axis=1)
            assert both.any()
            harmonic = 1 / (weights / np.where(alone > 0, alone, 1)).sum(axis=1)
            single, shared = both & ~several, both & several
            assert rates[single, bucket] == pytest.approx(harmonic[single])
            assert (rates[shared, bucket] <= harmonic[shared] * (1 + 1e-9)).all()
            assert (rates[shared, bucket] >= 0.5 * harmonic[shared]).all()


def test_without_prompts_to_take_in_it_is_a_decode_server() -> None:
    """Prompts that the prefix cache holds but for a few tokens, with long answers."""
    load = workload((4096,), mean_output_tokens=4000, max_output_tokens=4000)
    buckets, levels = Buckets.of(load, [(0, 1)]), Levels.of(SLO, load)
    options = [(shape, 2048) for shape in (ParallelConfig(tp=1, dp=8), ParallelConfig(tp=8, dp=1))]
    cached = replace(CONTEXT, settings=replace(CONTEXT.settings, kv_cache_rate=0.999))
    mixed = MixedServers.of(cached, options, buckets, 4000)
    decode = DecodeServers.of(CONTEXT, [(shape, False) for shape, _ in options], buckets, 4000)
    assert mixed.full_rps(buckets, levels)[1] == pytest.approx(decode.batches(buckets, levels)[1], rel=0.06)
    assert (mixed.full_rps(buckets, levels)[1] < decode.batches(buckets, levels)[1]).all()


def test_a_batch_is_one_that_is_tried_and_leaves_room_for_a_pass() -> None:
    assert set(np.unique(BATCH)) <= {0.0, *map(float, BATCHES)}
    decode = DecodeServers.of(CONTEXT, [(shape, False) for shape, _ in OPTIONS], BUCKETS, LOAD.max_output_tokens)
    most = decode.batches(BUCKETS, NO_LEVELS)[0]
    assert (SERVERS.full_rps(BUCKETS, NO_LEVELS)[0] <= most).all()
    assert (decode.batches(BUCKETS, LEVELS)[1] * (1 + 1e-9) >= FULL).all()


def test_the_engines_greatest_batch_is_kept() -> None:
    servers = MixedServers.of(CONTEXT, OPTIONS, BUCKETS, LOAD.max_output_tokens, [8] * len(OPTIONS))
    assert servers.full_rps(BUCKETS, NO_LEVELS)[0].max() == 8


def test_a_server_keeps_the_batch_that_it_is_started_for() -> None:
    for only in (8, 16, 64):
        batches, rates = SERVERS.full_rps(BUCKETS, LEVELS, only)
        assert set(np.unique(batches)) <= {0.0, float(only)}
        assert (rates <= FULL * (1 + 1e-12)).all()
    batch, capped, full = SERVERS.capped_rps(BUCKETS, LEVELS, TOGETHER, 8)
    assert set(np.unique(batch)) <= {0.0, 8.0}
    assert (capped <= full).all()


def test_what_a_server_is_started_with() -> None:
    shape, budget = OPTIONS[1]
    assert SERVERS.config(1, 64) == ServerConfig(parallel=shape, tokens_per_step=budget, batch_size=64)
    assert SERVERS.devices.tolist() == [shape.devices for shape, _ in OPTIONS]


def test_pipeline_stages_are_refused() -> None:
    with pytest.raises(InputError, match="pp: must be 1 where servers do both phases, got 2"):
        MixedServers.of(CONTEXT, [(ParallelConfig(tp=8, dp=1, pp=2), 8192)], BUCKETS, 1000)


def test_some_of_the_servers_are_priced_as_among_all() -> None:
    some = SERVERS.among([4, 1])
    assert (some.full_rps(BUCKETS, LEVELS)[1] == FULL[[4, 1]]).all()
    assert (some.devices == SERVERS.devices[[4, 1]]).all()
    capped = SERVERS.capped_rps(BUCKETS, LEVELS, TOGETHER)[1]
    assert (some.capped_rps(BUCKETS, LEVELS, TOGETHER)[1] == capped[[4, 1]]).all()


def capped(slo: SloSettings = SLO, together: np.ndarray = TOGETHER, variation: float = 1.0) -> np.ndarray:
    return SERVERS.capped_rps(BUCKETS, Levels.of(slo, LOAD), together, arrivals=Arrivals.varied(variation))[1]


BOUNDS = st.builds(
    SloSettings,
    ttft_ms=st.floats(200, 20_000),
    tpot_ms=st.floats(12, 200),
    percentile=st.sampled_from([None, 90.0, 99.0]),
)


class TestBounds:
    def test_no_bound_on_ttft_leaves_the_full_rate(self) -> None:
        assert (capped(replace(SLO, ttft_ms=None)) == FULL).all()
        assert (SERVERS.full_rps(BUCKETS, NO_LEVELS)[1] >= FULL).all()

    @given(slo=BOUNDS, looser=st.floats(1.0, 4.0))
    def test_more_time_a_token_never_lowers_the_full_rate(self, slo: SloSettings, looser: float) -> None:
        assert slo.tpot_ms is not None
        tight, loose = (
            SERVERS.full_rps(BUCKETS, Levels.of(replace(slo, tpot_ms=slo.tpot_ms * by), LOAD))[1] for by in (1, looser)
        )
        assert (tight <= loose).all()

    @given(slo=BOUNDS, looser=st.floats(1.0, 4.0))
    def test_more_time_to_the_first_token_never_lowers_the_capped_rate(self, slo: SloSettings, looser: float) -> None:
        assert slo.ttft_ms is not None
        tight, loose = (capped(replace(slo, ttft_ms=slo.ttft_ms * by)) for by in (1, looser))
        assert (tight >= 0).all()
        assert (tight <= loose * (1 + 1e-5)).all()

    @given(slo=BOUNDS, served=st.booleans())
    def test_no_cap_is_above_the_full_rate(self, slo: SloSettings, served: bool) -> None:
        batch, rate, full = SERVERS.capped_rps(BUCKETS, Levels.of(slo, LOAD), TOGETHER, served=served)
        assert (rate <= full).all()
        assert ((batch > 0) == (full > 0)).all()

    @given(slo=BOUNDS)
    def test_no_mix_exceeds_what_its_ranges_do(self, slo: SloSettings) -> None:
        levels = Levels.of(slo, LOAD)
        own, rates = SERVERS.range_rps(BUCKETS, levels), SERVERS.full_rps(BUCKETS, levels)[1]
        for bucket in range(len(INTERVALS)):
            members = BUCKETS.weights[bucket] > 0
            with np.errstate(divide="ignore"):
                most = 1 / (BUCKETS.weights[bucket][members] / own[:, members]).sum(axis=1)
            assert (rates[:, bucket] <= most * (1 + 1e-9)).all()

    @given(st.floats(1.0, 60.0), st.floats(1.0, 4.0))
    @settings(max_examples=15, deadline=None)
    def test_caps_follow_bursts_and_company(self, variation: float, more: float) -> None:
        assert (capped(variation=variation) <= capped() * (1 + 1e-6)).all()
        assert (capped(variation=variation * more) <= capped(variation=variation) * (1 + 1e-6)).all()
        assert (capped(together=TOGETHER * more) >= capped() * (1 - 1e-6)).all()

    def test_a_rarer_miss_allows_less(self) -> None:
        shares = [np.full(len(INTERVALS), misses) for misses in (0.002, 0.01, 0.05)]
        caps = [SERVERS.capped_rps(BUCKETS, Levels.of(SLO, LOAD, misses), TOGETHER)[1] for misses in shares]
        assert (caps[0] <= caps[1]).all()
        assert (caps[1] <= caps[2]).all()

    @pytest.mark.parametrize("ttft_ms", [600, 1000, 3000])
    def test_at_the_cap_the_misses_are_what_is_allowed(self, ttft_ms: float) -> None:
        levels = Levels.of(replace(SLO, ttft_ms=ttft_ms), LOAD)
        _, rate, full = SERVERS.capped_rps(BUCKETS, levels, TOGETHER)
        service, rho, tail, left = SERVERS.queue(BUCKETS, rate, full, TOGETHER)
        slack = levels.ttft_ms - service
        wait = tail.at((slack * BUCKETS.weights).sum(axis=-1))
        late = (late_share(slack, rho, wait, left) * BUCKETS.weights).sum(axis=-1)
        assert (late[rate > 0] <= 0.01 * (1 + 1e-6)).all()


class TestLatencies:
    def test_more_requests_take_longer(self) -> None:
        times = [SERVERS.tpot_ms(BUCKETS, FULL * part, BATCH, 2.33) for part in (0.05, 0.3, 0.6, 0.9, 1.0)]
        for slow, fast in zip(times[1:], times, strict=False):
            assert (slow >= fast * (1 - 1e-9)).all()

    def test_at_the_full_rate_the_bound_holds(self) -> None:
        late = SERVERS.tpot_ms(BUCKETS, FULL, BATCH, LEVELS.spread)
        assert (late[BATCH > 0] <= 50 * (1 + 1e-9)).all()
        mean = SERVERS.tpot_ms(BUCKETS, FULL, BATCH, 0.0)
        assert (mean[BATCH > 0] < late[BATCH > 0]).all()

    def test_at_the_full_rate_by_littles_law_the_batch_is_full(self) -> None:
        ranks = np.array([float(shape.dp) for shape, _ in OPTIONS])[:, None]
        answering = FULL / ranks * (BUCKETS.weights @ BUCKETS.answers) * SERVERS.tpot_ms(BUCKETS, FULL, BATCH, 0.0)
        assert answering / 1000 == pytest.approx(BATCH, rel=1e-6)
