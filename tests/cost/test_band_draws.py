"""How far a rate may be off that several estimates make: single bands come out as they are, shared errors cancel."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.cost import UncertainRate, WorkShare, probability_better, rate_band, shares_of_best
from planner.cost.residuals.band_draws import SHARED, _scores, rate_draws
from planner.domain import PHASES, Band, Phase

PREFILL, DECODE = PHASES
NARROW, WIDE = Band(low=0.9, high=1.15, basis="narrow"), Band(low=0.7, high=1.4, basis="wide")
FREE = 1e-6
"""Utilisation of a phase that never binds."""

bands = st.builds(lambda low, high: Band(low=low, high=high), st.floats(0.3, 0.98), st.floats(1.02, 3))
gpus = st.sampled_from(["H200", "H20", "MI300X", "A100"])


def rate(
    *shares: tuple[str, Phase, float, Band | None], rps: float = 100.0, prefill: float = 1.0, decode: float = 1.0
) -> UncertainRate:
    return UncertainRate(
        rate_rps=rps,
        shares=tuple(WorkShare(gpu=g, phase=p, share=w, band=b) for g, p, w, b in shares),
        utilisations=((PREFILL, prefill), (DECODE, decode)),
    )


def ends(uncertain: UncertainRate) -> tuple[float, float]:
    band = rate_band(uncertain)
    return band.low_rps, band.high_rps


class TestOneTypeAndPhase:
    @given(bands, gpus, st.sampled_from(PHASES), st.floats(0.01, 1e5))
    def test_the_bands_own_ends(self, band: Band, gpu: str, phase: Phase, rps: float) -> None:
        assert ends(rate((gpu, phase, 1.0, band), rps=rps)) == pytest.approx(
            (rps * band.low, rps * band.high), rel=1e-4
        )

    @pytest.mark.parametrize(("low", "high"), [(0.5, 0.9), (1.1, 1.6), (1.0, 1.3)])
    def test_so_it_is_where_every_measurement_was_on_one_side(self, low: float, high: float) -> None:
        assert ends(rate(("H20", DECODE, 1.0, Band(low=low, high=high)))) == pytest.approx(
            (100 * low, 100 * high), rel=1e-4
        )

    def test_a_phase_with_time_to_spare_is_no_matter(self) -> None:
        both = rate(("H20", PREFILL, 1.0, NARROW), ("H20", DECODE, 1.0, WIDE), decode=FREE)
        assert ends(both) == ends(rate(("H20", PREFILL, 1.0, NARROW)))

    def test_several_islands_of_a_type_err_as_one(self) -> None:
        parts = rate(*[("H20", DECODE, 0.25, WIDE)] * 4)
        assert ends(parts) == pytest.approx(ends(rate(("H20", DECODE, 1.0, WIDE))))

    def test_servers_that_do_both_phases_err_alike_in_both(self) -> None:
        halves = [("H20", PREFILL, 1.0, WIDE), ("H20", DECODE, 1.0, WIDE)]
        apart = rate(*halves)
        together = replace(apart, shares=tuple(replace(share, whose=Phase.MIXED) for share in apart.shares))
        assert ends(together) == pytest.approx((100 * 0.7, 100 * 1.4), rel=1e-4)
        assert ends(apart)[1] < 0.95 * ends(together)[1]

    def test_without_bands_there_is_none(self) -> None:
        assert rate_band(rate(("H20", DECODE, 1.0, None))) is None

    def test_its_basis_names_every_source_once(self) -> None:
        band = rate_band(rate(("H20", PREFILL, 0.5, WIDE), ("H200", PREFILL, 0.5, NARROW), ("H20", DECODE, 1.0, WIDE)))
        assert band.basis == "wide; narrow"


class TestSeveral:
    def test_two_types_that_share_the_work_err_less_than_one(self) -> None:
        """Logarithms nearly add up: the spread of a mean of two scores of correlation rho is sqrt((1 + rho) / 2)."""
        small = Band(low=math.exp(-0.05), high=math.exp(0.05))
        low, high = ends(rate(("H200", DECODE, 0.5, small), ("H20", DECODE, 0.5, small)))
        assert math.log(high / low) / 2 == pytest.approx(0.05 * math.sqrt((1 + SHARED) / 2), rel=0.03)

    def test_errors_of_types_correlate_within_a_phase_and_not_across(self) -> None:
        names = [("H200", PREFILL), ("H20", PREFILL), ("H200", DECODE), ("H20", DECODE)]
        came = np.corrcoef([_scores(*name) for name in names])
        due = np.array([[1, SHARED, 0, 0], [SHARED, 1, 0, 0], [0, 0, 1, SHARED], [0, 0, SHARED, 1]])
        assert came == pytest.approx(due, abs=0.03)

    def test_the_slower_phase_of_two_balanced_ones_counts(self) -> None:
        """P(min of two > x) = P(one > x)^2 for phases that err independently."""
        draws = rate_draws(rate(("H20", PREFILL, 1.0, WIDE), ("H20", DECODE, 1.0, WIDE))) / 100
        single = rate_draws(rate(("H20", PREFILL, 1.0, WIDE))) / 100
        for x in (0.8, 0.9, 1.0, 1.1):
            assert np.mean(draws > x) == pytest.approx(np.mean(single > x) ** 2, abs=0.02)

    @given(bands, bands, st.floats(0.05, 1))
    def test_what_binds_is_the_lower_of_the_phases_in_every_draw(self, one: Band, other: Band, decode: float) -> None:
        draws = rate_draws(rate(("H20", PREFILL, 1.0, one), ("H200", DECODE, 1.0, other), decode=decode))
        prefill = rate_draws(rate(("H20", PREFILL, 1.0, one)))
        decoded = rate_draws(rate(("H200", DECODE, 1.0, other))) / decode
        assert draws == pytest.approx(np.minimum(prefill, decoded))

    @given(bands, bands)
    def test_the_predicted_rate_lies_in_the_band(self, one: Band, other: Band) -> None:
        low, high = ends(rate(("H20", PREFILL, 1.0, one), ("H200", DECODE, 1.0, other)))
        assert low < 100 < high

    @given(bands, st.floats(0.5, 1), st.floats(0, 1))
    def test_an_end_of_a_part_moves_both_ends_its_way(self, band: Band, factor: float, share: float) -> None:
        def with_part(part: Band) -> tuple[float, float]:
            return ends(rate(("H20", DECODE, share, part), ("H200", DECODE, 1 - share, NARROW)))

        lower, higher = replace(band, low=band.low * factor), replace(band, high=band.high / factor)
        for below, above in ((with_part(lower), with_part(band)), (with_part(band), with_part(higher))):
            assert all(less <= more * (1 + 1e-9) for less, more in zip(below, above, strict=True))

    def test_a_network_that_binds_lets_no_faster_gpu_add_to_the_rate(self) -> None:
        held = UncertainRate(
            rate_rps=100.0,
            shares=(WorkShare(gpu="H20", phase=DECODE, share=1.0, band=WIDE),),
            utilisations=((DECODE, 0.8),),
            ceiling=1.0,
        )
        assert ends(held) == pytest.approx((100 * 0.7 / 0.8, 100.0), rel=1e-4)

    @given(st.floats(0.1, 10))
    @settings(max_examples=10, deadline=None)
    def test_the_band_scales_with_the_rate(self, factor: float) -> None:
        shares = (("H20", PREFILL, 0.4, WIDE), ("H200", PREFILL, 0.6, NARROW), ("H20", DECODE, 1.0, WIDE))
        assert ends(rate(*shares, rps=factor)) == pytest.approx(
            tuple(factor * end for end in ends(rate(*shares, rps=1.0)))
        )


class TestComparison:
    def test_equal_plans_are_as_likely_better_as_worse(self) -> None:
        assert probability_better(rate(("H20", DECODE, 1.0, WIDE)), rate(("H20", DECODE, 1.0, WIDE))) == 0.5

    @given(bands, st.floats(1.0001, 3))
    def test_of_one_type_the_higher_rate_is_certain(self, band: Band, factor: float) -> None:
        more, less = rate(("H20", DECODE, 1.0, band), rps=100 * factor), rate(("H20", DECODE, 1.0, band))
        assert probability_better(more, less) == 1
        assert probability_better(less, more) == 0

    @given(bands, bands, st.floats(0.8, 1.25), st.floats(0, 1))
    def test_one_is_better_or_the_other(self, one: Band, other: Band, factor: float, share: float) -> None:
        a = rate(("H20", DECODE, share, one), ("H200", DECODE, 1 - share, other), rps=100 * factor)
        b = rate(("H200", DECODE, 1.0, other))
        forth, back = probability_better(a, b), probability_better(b, a)
        assert forth is not None
        assert back is not None
        assert forth + back == pytest.approx(1)

    @given(bands, bands, st.floats(0.8, 1.25), st.floats(1, 1.5))
    def test_a_higher_rate_is_never_less_likely_better(
        self, one: Band, other: Band, factor: float, more: float
    ) -> None:
        base = rate(("H200", DECODE, 1.0, other))
        lower = probability_better(rate(("H20", DECODE, 1.0, one), rps=100 * factor), base)
        higher = probability_better(rate(("H20", DECODE, 1.0, one), rps=100 * factor * more), base)
        assert lower is not None
        assert higher is not None
        assert lower <= higher

    def test_of_different_types_it_follows_the_spread_of_the_difference(self) -> None:
        """ln(A / B) is normal with standard deviation s sqrt(2 (1 - rho)) for equal bands."""
        from statistics import NormalDist

        half = 0.2
        band = Band(low=math.exp(-half), high=math.exp(half))
        spread = half / NormalDist().inv_cdf(0.9) * math.sqrt(2 * (1 - SHARED))
        came = probability_better(rate(("H200", DECODE, 1.0, band), rps=110.0), rate(("H20", DECODE, 1.0, band)))
        assert came == pytest.approx(NormalDist(0, spread).cdf(math.log(1.1)), abs=0.015)

    def test_nothing_is_said_of_rates_without_bands(self) -> None:
        assert probability_better(rate(("H20", DECODE, 1.0, None)), rate(("H20", DECODE, 1.0, WIDE))) is None


class TestBestOfSeveral:
    @given(st.lists(st.tuples(gpus, bands, st.floats(50, 200), st.floats(0.5, 2)), min_size=1, max_size=5))
    def test_one_of_them_is(self, rows: list[tuple[str, Band, float, float]]) -> None:
        shares = shares_of_best([rate((g, DECODE, 1.0, b), rps=rps) for g, b, rps, _ in rows], [w for *_, w in rows])
        assert shares is not None
        assert sum(shares) == pytest.approx(1)
        assert all(share >= 0 for share in shares)

    def test_of_two_it_is_the_probability_that_one_is_better(self) -> None:
        a, b = rate(("H200", DECODE, 1.0, WIDE), rps=110.0), rate(("H20", DECODE, 1.0, WIDE))
        assert shares_of_best([a, b], [1.0, 1.0]) == pytest.approx(
            (probability_better(a, b), probability_better(b, a)), abs=1e-9
        )

    def test_worth_decides_between_points_that_err_alike(self) -> None:
        rates = [rate(("H20", DECODE, 1.0, WIDE), rps=rps) for rps in (100.0, 150.0, 100.0)]
        assert shares_of_best(rates, [2.0, 1.0, 2.0]) == pytest.approx((0.5, 0.0, 0.5))

    def test_without_a_band_nothing_is_said(self) -> None:
        assert shares_of_best([rate(("H20", DECODE, 1.0, None)), rate(("H20", DECODE, 1.0, WIDE))], [1.0, 1.0]) is None
        assert shares_of_best([], []) is None


def test_draws_depend_on_type_and_phase_alone() -> None:
    before = _scores("H20", DECODE).copy()
    _scores.cache_clear()
    _scores("A100", DECODE)
    assert (_scores("H20", DECODE) == before).all()
