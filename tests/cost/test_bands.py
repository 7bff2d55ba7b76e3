"""How far one estimate may be off: the relation that applies, what is carried over, and somebody's own residuals."""

import math
from dataclasses import replace
from itertools import pairwise

import make_bands
import numpy as np
import pytest
from cost_figures import gpu, model
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.cost import BUILT_IN, band_of, explain, fit_calibration, tabulate, tabulate_placed, time_band, with_bands
from planner.cost.residuals.band_table import MEASURED
from planner.cost.residuals.bands import (
    ALL,
    BAND_TABLE,
    DENSE,
    FEWEST_OWN_RESIDUALS,
    MOE,
    BandRow,
    relation_of,
    slice_band,
)
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
    Metric,
    Origin,
    Phase,
    Relation,
)
from planner.domain.efficiency import Factor
from planner.errors import InconsistentPlanError

LOG = st.floats(-1.5, 1.5)
CARRIED = tuple(Relation)[2:]
FIGURES = (*Phase, Metric.TTFT)


def row(relation: Relation, low: float, high: float, of: str = ALL, points: int = 50) -> BandRow:
    return BandRow(figure=Phase.DECODE, relation=relation, slice=of, log_low=low, log_high=high, points=points)


@st.composite
def tables(draw: st.DrawFn) -> list[BandRow]:
    """Rows of decode: all relations of all models, some of them of MoE models and of one model, too."""
    rows = [row(relation, *sorted((draw(LOG), draw(LOG)))) for relation in (Relation.SAME, *CARRIED)]
    for of in ("mine", MOE):
        kept = draw(st.sets(st.sampled_from((Relation.SAME, *CARRIED))))
        rows += [row(relation, *sorted((draw(LOG), draw(LOG))), of) for relation in sorted(kept)]
    return rows


class TestTable:
    def test_its_rows_are_one_a_slice_and_in_order(self) -> None:
        keys = [(r.figure, r.relation, r.slice) for r in BAND_TABLE]
        assert len(set(keys)) == len(keys)
        assert all(r.log_low <= r.log_high and r.points > 0 for r in BAND_TABLE)

    def test_every_estimate_has_a_band_at_last(self) -> None:
        for figure in FIGURES:
            for relation in (Relation.SAME, *CARRIED):
                for of in (("never seen", DENSE), ("never seen", MOE), ("gpt-oss-120b", MOE)):
                    band = slice_band(figure, relation, of)
                    assert 0 < band.low < band.high
                    assert band.points > 0
                    assert band.basis.startswith("carried over, no measurement of") == (relation in CARRIED)

    def test_a_table_without_the_weakest_relation_is_a_defect_in_words(self) -> None:
        with pytest.raises(InconsistentPlanError, match=r"must have a row of decode for relation model or a weaker"):
            slice_band(Phase.DECODE, Relation.MODEL, [], [row(Relation.SAME, -0.1, 0.1)])


class TestWhichResidualsCount:
    ROWS = (
        row(Relation.SAME, -0.2, 0.3, points=237),
        row(Relation.SAME, -0.1, 0.5, MOE, points=112),
        row(Relation.SAME, -0.3, 0.1, "mine", points=41),
        row(Relation.GPU, -0.4, 0.2, points=230),
        row(Relation.FORMULAS, -0.3, 0.9, MOE, points=101),
        row(Relation.FORMULAS, -0.9, 0.3, points=201),
    )

    @pytest.mark.parametrize(
        ("relation", "slices", "low", "high", "basis"),
        [
            (Relation.SAME, (DENSE,), -0.2, 0.3, "237 left-out points of decode"),
            (Relation.SAME, ("other", MOE), -0.1, 0.5, "112 left-out points of decode of MoE models"),
            (Relation.SAME, ("mine", MOE), -0.3, 0.1, "41 left-out points of decode of mine"),
            # no engine was left out: what weaker relations say counts
            (
                *(Relation.ENGINE, ("mine", MOE), -0.4, 0.2),
                "carried over, no measurement of this model with this engine: 230 left-out points of decode, each GPU "
                "type left out",
            ),
            (
                *(Relation.MODEL, ("other", MOE), -0.4, 0.9),
                "carried over, no measurement of this model: 101 left-out points of decode of MoE models, model and "
                "GPU type left out",
            ),
        ],
    )
    def test_the_smallest_slice_and_no_less_than_firmer_relations(
        self, relation: Relation, slices: tuple[str, ...], low: float, high: float, basis: str
    ) -> None:
        band = slice_band(Phase.DECODE, relation, slices, self.ROWS)
        assert (band.low, band.high) == pytest.approx((math.exp(low), math.exp(high)))
        assert (band.basis, band.relation) == (basis, relation)

    @given(tables(), st.sampled_from([("mine", MOE), ("other", MOE), ("other", DENSE)]))
    def test_a_weaker_relation_is_never_narrower(self, rows: list[BandRow], slices: tuple[str, ...]) -> None:
        bands = [slice_band(Phase.DECODE, relation, slices, rows) for relation in (Relation.SAME, *CARRIED)]
        for firmer, weaker in pairwise(bands):
            assert weaker.low <= firmer.low
            assert firmer.high <= weaker.high


def measured_with(*, several: bool) -> tuple[str, str, str]:
    """(GPU type, model, engine) that were measured together; whether the type was with further engines."""
    return next((g, m, e.split()[0]) for _, g, m, _, e in MEASURED if (len(e.split()) > 1) is several and e)


class TestRelations:
    def test_what_was_measured_together_is_the_same(self) -> None:
        for _, name, known, _, engines in MEASURED:
            for engine in ("", *engines.split()):
                assert relation_of(gpu(name), model(known), engine, None) is Relation.SAME

    def test_another_engine(self) -> None:
        name, known, _ = measured_with(several=False)
        assert relation_of(gpu(name), model(known), "never seen", None) is Relation.ENGINE

    def test_another_gpu_type_of_a_family_that_was_measured(self) -> None:
        assert relation_of(gpu("H200"), model("deepseek-v3"), "", None) is Relation.SAME
        cousin = replace(gpu("H200"), name="H222")
        assert relation_of(cousin, model("deepseek-v3"), "", None) is Relation.GPU

    def test_another_model(self) -> None:
        assert relation_of(gpu("H200"), model("deepseek-v4-flash"), "", None) is Relation.FORMULAS  # layers of its own
        assert relation_of(gpu("H200"), model("mixtral-8x7b"), "", None) is Relation.MODEL
        assert relation_of(replace(gpu("H200"), name="H222"), model("mixtral-8x7b"), "", None) is Relation.FORMULAS

    def test_a_family_of_which_nothing_was_measured(self) -> None:
        beyond = replace(gpu("H200"), name="R1", family="rubin")
        assert relation_of(beyond, model("deepseek-v3"), "", None) is Relation.FORMULAS

    def test_a_model_is_known_by_its_shape_at_any_precision(self) -> None:
        known = next(known for _, name, known, _, _ in MEASURED if name == "H200")
        renamed = replace(model(known), name="mine", weight_bytes=2.0, expert_bytes=2.0)
        assert relation_of(gpu("H200"), renamed, "", None) is Relation.SAME

    def test_somebodys_own_measurements_count(self) -> None:
        own = Factor(
            **{"name": "kernels_decode", "family": "rubin", "value": 0.5, "unit": "1", "origin": Origin.USER},
            **{"source": "mine", "gpus": ("R1",), "measured": (("R1", "mixtral-8x7b"),)},
        )
        calibration, new = Calibration(name="mine", factors=(own,)), replace(gpu("H200"), name="R1", family="rubin")
        assert relation_of(new, model("mixtral-8x7b"), "vllm", calibration) is Relation.SAME
        assert relation_of(replace(new, name="R2"), model("mixtral-8x7b"), "", calibration) is Relation.GPU
        assert relation_of(new, model("qwen3-8b"), "", calibration) is Relation.MODEL
        published = replace(calibration, factors=(replace(own, origin=Origin.PUBLISHED),))
        assert relation_of(new, model("mixtral-8x7b"), "", published) is Relation.FORMULAS


class TestEstimates:
    def test_reference_mode_and_profiles_have_none(self) -> None:
        for chosen in (CostSettings(mode=CostMode.REFERENCE), CostSettings(source=CostSource.TABULATED)):
            assert band_of(gpu("H100"), model("deepseek-v3"), Phase.DECODE, chosen) is None

    def test_times_are_the_inverse_of_rates_but_first_tokens_have_their_own(self) -> None:
        rate, tpot = (
            of(gpu("H200"), model("deepseek-v3"), Phase.DECODE, CostSettings()) for of in (band_of, time_band)
        )
        assert (tpot.low, tpot.high) == pytest.approx((1 / rate.high, 1 / rate.low))
        ttft = time_band(gpu("H200"), model("deepseek-v3"), Phase.PREFILL, CostSettings())
        assert "of TTFT" in ttft.basis
        assert (
            time_band(gpu("H200"), model("deepseek-v3"), Phase.PREFILL, CostSettings(mode=CostMode.REFERENCE)) is None
        )

    def test_servers_that_do_both_phases_have_their_own_residuals(self) -> None:
        both = band_of(gpu("H200"), model("deepseek-v3"), Phase.MIXED, CostSettings())
        assert "of aggregated serving" in both.basis
        own = [
            MeasuredBand(gpu="H200", model="deepseek-v3", phase=phase, low=low, high=1.2, points=5)
            for phase, low in zip(PHASES, (0.8, 0.9), strict=True)
        ]
        for bands, due in ((own, (0.8, 1.2, 10)), (own[:1], (both.low, both.high, both.points))):
            settings = CostSettings(calibration=Calibration(name="mine", factors=BUILT_IN.factors, bands=tuple(bands)))
            band = band_of(gpu("H200"), model("deepseek-v3"), Phase.MIXED, settings)
            assert (band.low, band.high, band.points) == due

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


class TestQuantiles:
    @given(st.integers(9, 60), st.integers(0, 1000))
    @settings(max_examples=20, deadline=None)
    def test_the_next_one_lies_beyond_either_end_in_one_of_ten_cases(self, points: int, seed: int) -> None:
        """Of uniform ones the share below the k-th of n is k / (n + 1) in the mean, wherever they come from."""
        drawn = np.random.default_rng(seed).uniform(size=(400, points))
        ends = np.array([make_bands.quantiles(row) for row in drawn])
        assert ends.mean(axis=0) == pytest.approx([0.1, 0.9], abs=5 * 0.3 / math.sqrt(400 * points))

    @given(st.lists(st.floats(-2, 2), min_size=1, max_size=60))
    def test_no_more_lie_beyond_than_the_next_one_may(self, logs: list[float]) -> None:
        low, high = make_bands.quantiles(logs)
        assert min(logs) <= low <= high <= max(logs)
        for beyond in (sum(log < low for log in logs), sum(log > high for log in logs)):
            assert beyond <= 0.1 * (len(logs) + 1)
