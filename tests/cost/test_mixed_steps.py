"""A pass with sequences and a chunk of prompts: what it is at both ends, what it may not do between them."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from cost_figures import factors, gpu, model, slower_of_both, step
from cost_models import Case, least_compute_ms, least_memory_ms, random_models
from hypothesis import assume, given
from hypothesis import strategies as st

from planner.cost import CostContext
from planner.cost.mixed import Passes, mixed_cost
from planner.cost.parts import StepCost, smooth_maximum
from planner.domain import PHASES, Calibration, CostSettings, Factor, GpuSpec, ModelSpec, Origin, Phase

DIP = 1e-9  # rounding
ONE_WAY = CostSettings(two_micro_batches=False)
SERVED = ("deepseek-v3", "llama-3.1-70b", "gpt-oss-120b", "qwen3-30b-a3b")
NAMES = ("H100", "H200", "H20", "A100", "DGX-B200", "GB200-NVL72", "MI300X", "MI355X", "L40S")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mixture:
    """One pass of one model on one GPU type."""

    spec: GpuSpec
    shape: ModelSpec
    settings: CostSettings
    tp: int
    dp: int
    sequences: float
    cached: float
    chunk: float
    prompt: float


def run(case: Mixture) -> StepCost:
    tp, dp, sequences, cached, chunk, prompt = (
        np.array(float(v)) for v in (case.tp, case.dp, case.sequences, case.cached, case.chunk, case.prompt)
    )
    passes = Passes(tp=tp, dp=dp, sequences=sequences, cached=cached, chunk=chunk, prompt=prompt)
    return mixed_cost(CostContext(gpu=case.spec, model=case.shape, settings=case.settings), passes)


def ms(case: Mixture) -> float:
    return float(run(case).total_ms)


def alike(spec: GpuSpec) -> Calibration:
    """Factors with which the kernels of both phases are as fast as each other."""
    return Calibration(
        name="alike",
        factors=tuple(
            Factor(name=f"kernels_{phase}", family=spec.family, value=0.7, unit="1", origin=Origin.USER, source="")
            for phase in PHASES
        ),
    )


@st.composite
def mixtures(draw: st.DrawFn, *, plain: bool = False) -> Mixture:
    """A pass with every condition drawn; dense models in one group.

    `plain`: load is spread evenly, kernels of both phases are alike, nothing is drafted. Otherwise a pass may gain by
    more tokens: slow kernels by a chunk that fills them, one rank's surplus of prompts by more of others' sequences.
    """
    shape = draw(st.sampled_from(SERVED).map(model) | random_models())
    tp = draw(st.sampled_from([1, 2, 4, 8]))
    most = shape.experts.routed // tp if shape.experts else 1
    spec = gpu(draw(st.sampled_from(NAMES)))
    settings = CostSettings(
        two_micro_batches=False,
        balanced_experts=plain or draw(st.booleans()),
        mtp_tokens=0 if plain else draw(st.integers(0, 2)),
        calibration=alike(spec) if plain else None,
    )
    return Mixture(
        spec=spec,
        shape=shape,
        settings=settings,
        tp=tp,
        dp=max(1, min(most, draw(st.integers(1, 40)))),
        sequences=draw(st.integers(1, 1024)),
        cached=draw(st.integers(1, 60_000)),
        chunk=draw(st.integers(1, 16_384)),
        prompt=draw(st.integers(1, 60_000)),
    )


class TestBothEnds:
    @given(case=mixtures())
    def test_without_a_chunk_it_is_a_decode_pass(self, case: Mixture) -> None:
        """A step of decode tells the time of a token; the pass yields so many of them."""
        alone = step(
            case.spec,
            Phase.DECODE,
            length=case.cached,
            batch=case.sequences,
            tp=case.tp,
            dp=case.dp,
            shape=case.shape,
            settings=case.settings,
        )
        gained = sum(case.settings.mtp_acceptance**k for k in range(case.settings.mtp_tokens + 1))
        assert ms(replace(case, chunk=0)) == pytest.approx(float(alone.total_ms) * gained)

    @given(case=mixtures(), prompts=st.integers(1, 16))
    def test_without_sequences_it_is_a_prefill_step(self, case: Mixture, prompts: int) -> None:
        """Of whole prompts that share the pass."""
        length = max(1, int(case.chunk) // prompts)
        settings = replace(case.settings, max_tokens_per_step=16_384)
        alone = step(
            case.spec,
            Phase.PREFILL,
            length=length,
            batch=prompts,
            tp=case.tp,
            dp=case.dp,
            shape=case.shape,
            settings=settings,
        )
        assume(length * prompts <= settings.max_tokens_per_step)
        outcome = replace(case, sequences=0, chunk=length * prompts, prompt=length, settings=settings)
        assert ms(outcome) == pytest.approx(float(alone.total_ms))

    @pytest.mark.parametrize("budget", [2048, 16_384])
    @pytest.mark.parametrize("hit", [0.25, 0.5, 0.9])
    @pytest.mark.parametrize("name", SERVED)
    def test_what_the_prefix_cache_holds_is_read_and_not_taken_in(self, name: str, hit: float, budget: int) -> None:
        settings = replace(ONE_WAY, max_tokens_per_step=budget, kv_cache_rate=hit)
        prompt = 8192 / (1 - hit)
        whole = step("H200", Phase.PREFILL, length=prompt, tp=8, shape=model(name), settings=settings, cached=hit)
        chunk = float(min(budget, 8192))
        conditions = {"tp": np.array(8.0), "dp": np.array(1.0), "sequences": np.array(0.0), "cached": np.array(1.0)}
        passes = Passes(**conditions, chunk=np.array(chunk), prompt=np.array(prompt), hit=hit)
        outcome = mixed_cost(CostContext(gpu=gpu("H200"), model=model(name), settings=settings), passes)
        for part in whole.parts:
            if part.name != "head":  # the last chunk alone needs it
                assert float(outcome.part(part.name).ms) * 8192 / chunk == pytest.approx(float(part.ms)), part.name

    @pytest.mark.parametrize(("name", "dp"), [("H200", 8), ("H200", 32), ("GB200-NVL72", 72), ("MI300X", 16)])
    def test_across_hosts_too(self, name: str, dp: int) -> None:
        """Prompts go once to each host that they visit, over all links as in prefill."""
        alone = step(name, Phase.PREFILL, length=4096, batch=2, dp=dp, settings=ONE_WAY)
        conditions = {"spec": gpu(name), "shape": model(), "settings": ONE_WAY, "tp": 1, "dp": dp, "cached": 1}
        outcome = run(Mixture(**conditions, sequences=0, chunk=8192, prompt=4096))
        for part in alone.parts:
            assert float(outcome.part(part.name).ms) == pytest.approx(float(part.ms)), part.name

    def test_a_prompt_of_several_chunks_costs_what_its_chunks_cost(self) -> None:
        """A chunk is the mean one; but for the head, which the last one alone needs."""
        whole = step("H200", Phase.PREFILL, length=8192, dp=8, settings=ONE_WAY, max_tokens_per_step=2048)
        conditions = {"spec": gpu("H200"), "shape": model(), "settings": ONE_WAY, "tp": 1, "dp": 8, "cached": 1}
        outcome = run(Mixture(**conditions, sequences=0, chunk=2048, prompt=8192))
        for name in ("projections", "attention", "dense", "shared experts", "routed experts", "dispatch"):
            assert 4 * float(outcome.part(name).ms) == pytest.approx(float(whole.part(name).ms)), name


class TestByHand:
    def test_products_see_all_tokens_together(self) -> None:
        """Llama-3.1-70B on eight H100: 64 sequences and a chunk of 1984 tokens are 2048 rows of every dense product."""
        spec, f = gpu("H100"), factors(gpu("H100"))
        conditions = {"spec": spec, "shape": model("llama-3.1-70b"), "settings": ONE_WAY, "tp": 8, "dp": 1}
        outcome = run(Mixture(**conditions, sequences=64, cached=4000, chunk=1984, prompt=1984)).part("dense")
        weights = 80 * 3 * 8192 * 28672 / 8
        peak = 989e9 * f.gemm * 2048 / (2048 + f.gemm_half)
        compute = 2 * weights * (1984 / f.kernels_prefill + 64 / f.kernels_decode) / peak
        memory = weights * 2 / (3350e6 * f.memory)
        assert float(outcome.ms) == pytest.approx(slower_of_both(compute, memory))

    def test_attention_of_both_adds_up(self) -> None:
        spec, f = gpu("H100"), factors(gpu("H100"))
        conditions = {"spec": spec, "shape": model("llama-3.1-70b"), "settings": ONE_WAY, "tp": 8, "dp": 1}
        cost = run(Mixture(**conditions, sequences=64, cached=4000, chunk=1984, prompt=1984))
        pair = 80 * 2 * (64 / 8) * 2 * 128  # FLOPs of a query and a key on one GPU
        of_chunk = pair * 1984 * 1985 / 2 / (989e9 * f.kernels_prefill * f.attention_prefill)
        of_sequences = pair * 64 * 4000 / (989e9 * f.kernels_decode * f.attention_decode)
        assert float(cost.part("attention").compute_ms) == pytest.approx(of_chunk)
        assert float(cost.part("attention of sequences").compute_ms) == pytest.approx(of_sequences)
        cache = 80 * 64 * 4000 * 2 * 128 * 2  # bytes: one of the eight heads lies on a GPU
        assert float(cost.part("attention of sequences").memory_ms) == pytest.approx(cache / (3350e6 * f.cache))

    @pytest.mark.parametrize(("drafted", "share"), [(0, 2048 / (64 + 2048)), (1, 2048 / (2 * 64 + 2048))])
    def test_the_pass_is_as_long_as_its_parts_together(self, drafted: int, share: float) -> None:
        """And longer by what ranks wait for the fullest one: prompts alone are uneven, a `share` of the pass's tokens.

        Three doublings make eight ranks, five the 32 that the factor is of.
        """
        f, settings = factors(gpu("H200")), replace(ONE_WAY, mtp_tokens=drafted)
        conditions = {"spec": gpu("H200"), "shape": model(), "settings": settings, "tp": 1, "dp": 8}
        mixed = Mixture(**conditions, sequences=64, cached=4000, chunk=2048, prompt=4096)
        even, uneven = run(replace(mixed, settings=replace(settings, balanced_experts=True))), run(mixed)
        assert float(even.total_ms) == pytest.approx(sum(float(part.ms) for part in even.parts))
        longer = 1 + (f.rank_imbalance - 1) * 3 / 5 * share
        assert float(uneven.total_ms) == pytest.approx(sum(float(part.ms) for part in uneven.parts) * longer)
        assert float(uneven.part("scheduling").ms) == f.step_prefill_ms


class TestGrowth:
    @given(case=mixtures(plain=True), more=st.integers(1, 1024))
    def test_with_sequences(self, case: Mixture, more: int) -> None:
        assert ms(replace(case, sequences=case.sequences + more)) >= ms(case) * (1 - DIP)

    @given(case=mixtures(plain=True), more=st.integers(1, 16_384))
    def test_with_the_chunk(self, case: Mixture, more: int) -> None:
        assert ms(replace(case, chunk=case.chunk + more)) >= ms(case) * (1 - DIP)

    @given(case=mixtures(), more=st.integers(1, 60_000))
    def test_with_cached_tokens(self, case: Mixture, more: int) -> None:
        assert ms(replace(case, cached=case.cached + more)) >= ms(case) * (1 - DIP)

    @given(case=mixtures(), more=st.integers(1, 60_000))
    def test_with_the_prompts_but_for_the_head(self, case: Mixture, more: int) -> None:
        """Of longer prompts fewer end in a chunk, so that the head has fewer tokens to find a next one for."""
        short, long = (run(replace(case, prompt=length)) for length in (case.prompt, case.prompt + more))
        before, after = (float(cost.total_ms - cost.part("head").ms) for cost in (short, long))
        assert after >= before * (1 - DIP)


class TestBetweenBothAlone:
    @given(case=mixtures(plain=True))
    def test_at_least_the_longer_of_both(self, case: Mixture) -> None:
        chunk, sequences = ms(replace(case, sequences=0)), ms(replace(case, chunk=0))
        assert ms(case) >= max(chunk, sequences) * (1 - DIP)

    @given(case=mixtures(plain=True))
    def test_at_most_both_one_after_the_other(self, case: Mixture) -> None:
        chunk, sequences = ms(replace(case, sequences=0)), ms(replace(case, chunk=0))
        assert ms(case) <= (chunk + sequences) * (1 + DIP)


@given(case=mixtures())
def test_no_pass_beats_the_roofline(case: Mixture) -> None:
    """Multiplications of both at the data sheet's rate, weights and the sequences' cache at its bandwidth."""
    kept = {"spec": case.spec, "shape": case.shape, "settings": case.settings, "tp": case.tp, "dp": case.dp, "pp": 1}
    decode = Case(**kept, phase=Phase.DECODE, length=case.cached, batch=case.sequences, cached=0.0)
    chunk = Case(**kept, phase=Phase.PREFILL, length=case.prompt, batch=case.chunk / case.prompt, cached=0.0)
    took = ms(case)
    assert took > least_compute_ms(decode) + least_compute_ms(chunk)
    assert took > max(least_memory_ms(decode), least_memory_ms(chunk))


@given(first=st.just(0.0) | st.floats(1e-9, 1e6), other=st.just(0.0) | st.floats(1e-9, 1e6))
def test_the_smooth_maximum_is_at_most_19_percent_above_the_larger(first: float, other: float) -> None:
    outcome, larger = float(smooth_maximum(first, other)), max(first, other)
    assert larger * (1 - DIP) <= outcome <= larger * 2**0.25 * (1 + DIP)
    assert outcome == float(smooth_maximum(other, first))
    assert float(smooth_maximum(larger, larger)) == pytest.approx(larger * 2**0.25)
