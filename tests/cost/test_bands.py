"""How far one estimate may be off: the slice that counts, what is carried over, and somebody's own residuals."""

import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from cost_figures import gpu, model
from hypothesis import given
from hypothesis import strategies as st

from planner.cost import BUILT_IN, band_of, explain, fit_calibration, tabulate, tabulate_placed, with_bands
from planner.cost.bands import BAND_TABLE, DENSE, FEWEST_OWN_RESIDUALS, KINDS, MOE, BandRow, LeftOut, slice_band
from planner.domain import (
    PHASES,
    Calibration,
    CalibrationFit,
    CostMode,
    CostSettings,
    CostSource,
    JudgedMeasurement,
    MeasuredBand,
    Measurement,
    Phase,
)
from planner.domain.efficiency import ANY_FAMILY
from planner.errors import InconsistentPlanError

LOG = st.floats(-1.5, 1.5)


def row(family: str, low: float, high: float, left_out: LeftOut = LeftOut.RUN, points: int = 20) -> BandRow:
    return BandRow(
        family=family, kind=MOE, phase=Phase.DECODE, log_low=low, log_high=high, points=points, left_out=left_out
    )


@st.composite
def tables(draw: st.DrawFn) -> list[BandRow]:
    """Rows of MoE decode: some families by run, some of these by group, and the row of all."""
    rows = [row(ANY_FAMILY, *sorted((draw(LOG), draw(LOG))), LeftOut.GROUP)]
    for family in draw(st.sets(st.sampled_from(["hopper", "blackwell", "cdna3"]))):
        rows.append(row(family, *sorted((draw(LOG), draw(LOG)))))
        if draw(st.booleans()):
            rows.append(row(family, *sorted((draw(LOG), draw(LOG))), LeftOut.GROUP))
    return rows


class TestTable:
    def test_its_rows_are_one_a_slice_and_in_order(self) -> None:
        keys = [(r.family, r.kind, r.phase, r.left_out) for r in BAND_TABLE]
        assert len(set(keys)) == len(keys)
        assert all(r.log_low <= r.log_high and r.points > 0 and r.kind in KINDS for r in BAND_TABLE)

    def test_every_estimate_has_a_band_at_last(self) -> None:
        for family, kind, phase, measured in product(["hopper", "rubin", "never seen"], KINDS, PHASES, [True, False]):
            band = slice_band(family, kind, phase, measured=measured)
            assert 0 < band.low <= band.high
            assert band.points > 0
            assert band.basis

    def test_a_table_without_the_row_of_all_is_a_defect_in_words(self) -> None:
        with pytest.raises(InconsistentPlanError, match="band table: must have a row of family any for MoE decode"):
            slice_band("rubin", MOE, Phase.DECODE, measured=False, rows=[row("hopper", -0.1, 0.1)])


class TestWhichResidualsCount:
    ROWS = (
        row("hopper", -0.2, 0.3, points=37),
        row("hopper", -0.3, 0.1, LeftOut.GROUP, points=12),
        row("blackwell", -0.1, 0.6),
        row(ANY_FAMILY, -0.4, 0.4, LeftOut.GROUP, points=90),
    )

    def test_of_what_was_measured_the_slices(self) -> None:
        band = slice_band("hopper", MOE, Phase.DECODE, measured=True, rows=self.ROWS)
        assert (band.low, band.high) == pytest.approx((math.exp(-0.2), math.exp(0.3)))
        assert (band.basis, band.points) == ("37 left-out points of MoE decode on Hopper", 37)

    def test_within_the_slice_those_without_the_group_and_never_less_than_the_slice(self) -> None:
        band = slice_band("hopper", MOE, Phase.DECODE, measured=False, rows=self.ROWS)
        assert (band.low, band.high) == pytest.approx((math.exp(-0.3), math.exp(0.3)))
        assert band.basis == "12 left-out points of MoE decode on Hopper, their GPU type and model left out"

    @pytest.mark.parametrize("family", ["cdna3", "blackwell"])
    def test_elsewhere_those_without_the_family_and_never_less_than_any_slice(self, family: str) -> None:
        band = slice_band(family, MOE, Phase.DECODE, measured=False, rows=self.ROWS)
        assert (band.low, band.high) == pytest.approx((math.exp(-0.4), math.exp(0.6)))
        assert band.basis == "carried over: 90 left-out points of MoE decode, their GPU family left out"

    def test_another_kind_of_model_is_carried_over(self) -> None:
        rows = (*self.ROWS, replace(row(ANY_FAMILY, -0.5, 0.5, LeftOut.GROUP), kind=DENSE))
        band = slice_band("hopper", DENSE, Phase.DECODE, measured=False, rows=rows)
        assert (band.low, band.high) == pytest.approx((math.exp(-0.5), math.exp(0.5)))

    @given(tables(), st.sampled_from(["hopper", "blackwell", "cdna3", "rubin"]))
    def test_what_is_carried_over_is_never_narrower(self, rows: list[BandRow], family: str) -> None:
        measured = slice_band(family, MOE, Phase.DECODE, measured=True, rows=rows)
        carried = slice_band(family, MOE, Phase.DECODE, measured=False, rows=rows)
        assert carried.low <= measured.low
        assert measured.high <= carried.high
        for other in [r for r in rows if r.left_out is LeftOut.RUN]:
            afar = slice_band("rubin", MOE, Phase.DECODE, measured=False, rows=rows)
            assert afar.low <= math.exp(other.log_low)
            assert math.exp(other.log_high) <= afar.high


class TestEstimates:
    def test_reference_mode_and_profiles_have_none(self) -> None:
        for chosen in (CostSettings(mode=CostMode.REFERENCE), CostSettings(source=CostSource.TABULATED)):
            assert band_of(gpu("H100"), model("deepseek-v3"), Phase.DECODE, chosen) is None

    def test_the_kind_is_the_models(self) -> None:
        moe = band_of(gpu("A100"), model("deepseek-v3"), Phase.DECODE, CostSettings())
        dense = band_of(gpu("A100"), model("llama-3.1-70b"), Phase.DECODE, CostSettings())
        assert "MoE" in moe.basis
        assert "dense" in dense.basis

    def test_tables_placements_and_explanations_carry_it(self) -> None:
        from cost_workloads import workload

        h100, deepseek, load = gpu("H100"), model("deepseek-v3"), workload((512, 2048))
        row = tabulate(h100, 32, model=deepseek, workload=load, settings=CostSettings())
        for phase in PHASES:
            due = band_of(h100, deepseek, phase, CostSettings())
            assert due is not None
            assert row.phase(phase).band == due
            assert row.phase(phase).parallel is not None
            placed = tabulate_placed(
                h100, phase, row.phase(phase).parallel, model=deepseek, workload=load, settings=CostSettings()
            )
            assert placed.band == due
        shown = explain(h100, deepseek, Phase.DECODE, tp=1, devices=32, length=2048)
        assert shown.band == band_of(h100, deepseek, Phase.DECODE, CostSettings())

    def test_a_calibration_that_tells_its_residuals_is_taken_at_its_word(self) -> None:
        own = MeasuredBand(gpu="H20", model="deepseek-v3", phase=Phase.DECODE, low=0.9, high=1.2, points=5)
        mine = CostSettings(calibration=Calibration(name="mine", factors=BUILT_IN.factors, bands=(own,)))
        band = band_of(gpu("H20"), model("deepseek-v3"), Phase.DECODE, mine)
        assert (band.low, band.high, band.points) == (0.9, 1.2, 5)
        assert band.basis == "5 left-out points of deepseek-v3 on H20 in decode, the user's own"
        for name, phase in (("H20-3E", Phase.DECODE), ("H20", Phase.PREFILL)):
            other = band_of(gpu(name), model("deepseek-v3"), phase, mine)
            assert other == band_of(gpu(name), model("deepseek-v3"), phase, CostSettings())


def judged(ratios: list[float], **changes: object) -> CalibrationFit:
    """A fit whose left-out predictions miss the measured rate by these ratios (measured / predicted)."""
    measured = Measurement(
        gpu="H20", model="deepseek-v3", phase=Phase.DECODE, tp=1, dp=8, ep=8, length=1024, batch=8, ms=10.0
    )
    points = tuple(
        JudgedMeasurement(measurement=measured, before_ms=10.0, after_ms=10.0, left_out_ms=10.0 * ratio)
        for ratio in ratios
    )
    return CalibrationFit(calibration=Calibration(name="mine", factors=BUILT_IN.factors), points=points)


class TestOwnResiduals:
    def test_a_fit_tells_how_far_its_left_out_points_were_off(self) -> None:
        (band,) = with_bands(judged([0.8, 1.0, 1.25])).calibration.bands
        assert (band.gpu, band.model, band.phase, band.points) == ("H20", "deepseek-v3", Phase.DECODE, 3)
        assert band.low * band.high == pytest.approx(1)
        assert band.low < 0.8

    def test_too_few_tell_nothing(self) -> None:
        assert with_bands(judged([0.8, 1.25][: FEWEST_OWN_RESIDUALS - 1])).calibration.bands == ()
        assert with_bands(judged([0.8, math.nan, math.nan])).calibration.bands == ()

    def test_many_come_to_their_quantiles(self) -> None:
        residuals = np.random.default_rng(5).normal(0.1, 0.2, 4000)
        (band,) = with_bands(judged(np.exp(residuals).tolist())).calibration.bands
        assert (math.log(band.low), math.log(band.high)) == pytest.approx(np.quantile(residuals, [0.1, 0.9]), abs=0.02)

    @given(st.lists(st.floats(0.5, 2), min_size=3, max_size=8), st.floats(0.5, 2))
    def test_a_common_factor_moves_the_band_and_leaves_its_width(self, ratios: list[float], factor: float) -> None:
        (band,) = with_bands(judged(ratios)).calibration.bands
        (moved,) = with_bands(judged([ratio * factor for ratio in ratios])).calibration.bands
        assert (moved.low, moved.high) == pytest.approx((band.low * factor, band.high * factor))

    def test_a_fit_of_steps_goes_through(self) -> None:
        rows = [
            Measurement(
                gpu="H20", model="deepseek-v3", phase=Phase.DECODE, tp=1, dp=16, ep=16, length=2048, batch=b, ms=ms
            )
            for b, ms in ((8, 30.0), (32, 38.0), (64, 52.0))
        ]
        fit = with_bands(fit_calibration(rows, {"H20": gpu("H20")}, {"deepseek-v3": model("deepseek-v3")}, name="mine"))
        assert [band.points for band in fit.calibration.bands] == [3]
