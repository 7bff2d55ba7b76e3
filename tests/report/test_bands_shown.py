"""Bands in words and figures: the digits that they allow, and who is called better."""

from dataclasses import replace

import pytest
from bucketed_plans import bucketed
from hypothesis import given
from hypothesis import strategies as st

from planner.domain import Band, Estimate, LoadPoint, Origin, Phase, Plan, RateBand, RateComparison
from planner.report import figure, islands_frame, latency_frame, plan_page, summary
from planner.report.buckets.view import latencies_at, range_span, time_span
from planner.report.comparison.side_by_side import likelihood, rate_sentence
from planner.report.kit.quantities import Banded, banded_by

BAND = RateBand(low_rps=140.0, high_rps=225.0, basis="made up")


def firm(plan: Plan) -> Plan:
    """The plan with bands on every estimate and on its rate."""
    pairs = sorted({(i.gpu, i.phase) for i in plan.islands if i.phase is not None})
    estimates = tuple(
        Estimate(
            gpu=gpu,
            phase=phase,
            origin=Origin.CARRIED,
            source="a test",
            band=Band(low=0.72, high=1.4, basis="12 of it"),
        )
        for gpu, phase in pairs
    )
    return replace(plan, rate_band=BAND, provenance=replace(plan.provenance, estimates=estimates))


class TestDigits:
    @pytest.mark.parametrize(
        ("value", "low", "high", "said"),
        [
            (566.1, 430.2, 687.9, "570 (430–690)"),
            (2324.0, 1890.0, 2714.0, "2,300 (1,900–2,700)"),
            (900.0, 700.0, 1140.0, "900 (700–1,140)"),
            (566.1, 555.0, 577.0, "566 (555–577)"),
            (566.1, 566.1, 566.1, "566.1 (566.1–566.1)"),
            (0.1213, 0.101, 0.162, "0.12 (0.10–0.16)"),
            (1_180_000.0, 910_000.0, 1_450_000.0, "1,200,000 (900,000–1,400,000)"),
            (7.4, 2.0, 30.0, "7.4 (2.0–30.0)"),
        ],
    )
    def test_as_many_as_the_band_allows(self, value: float, low: float, high: float, said: str) -> None:
        assert str(Banded(value, low, high)) == said

    @given(st.floats(1e-3, 1e7), st.floats(0.05, 1), st.floats(1, 20))
    def test_rounding_is_small_beside_the_band_or_the_figure(self, value: float, low: float, high: float) -> None:
        banded = banded_by(value, Band(low=low, high=high))
        said = float(banded.figure.replace(",", ""))
        assert abs(said - value) <= max((banded.high - banded.low) / 8, value / 1e3) * (1 + 1e-9)
        assert float(banded.rounded(value).replace(",", "")) > 0

    @given(st.floats(0.1, 100), st.floats(0.3, 0.99), st.floats(1.01, 3))
    def test_a_price_has_the_inverse_band(self, value: float, low: float, high: float) -> None:
        price = banded_by(value, Band(low=low, high=high)).dividing(10.0)
        assert (price.value, price.low, price.high) == pytest.approx((10 / value, 10 / value / high, 10 / value / low))


class TestSummary:
    def test_the_headline_tells_rate_and_price_with_their_bands(self, plan: Plan) -> None:
        line = summary(firm(plan)).splitlines()[4]
        assert "serve about 180 requests/s** (140–220: P10–P90 of left-out measurements): " in line
        per_million = plan.price_usd_per_million_tokens
        price = Banded(per_million, per_million * 180 / 225, per_million * 180 / 140)
        assert f"about {price.figure} USD per million tokens ({price.range})" in line
        assert "(225.0 requests/s)" not in line

    def test_without_a_band_it_is_as_it_was(self, plan: Plan) -> None:
        assert "serve 180.0 requests/s**:" in summary(plan)
        assert "P10" not in summary(plan)

    def test_islands_and_origins_tell_theirs(self, plan: Plan) -> None:
        page = summary(firm(plan))
        assert "| Requests/s | P10–P90 | USD/hour |" in page
        assert "| 72–140 % |" in page
        (row,) = [line for line in page.splitlines() if line.startswith("| H20 | decode |")]
        assert " | 72 | 140 | " in row

    def test_a_rate_beside_its_band_is_pointed_out(self, plan: Plan) -> None:
        slow = replace(firm(plan), rate_band=RateBand(low_rps=100.0, high_rps=150.0))
        assert "**slower than predicted**: the rate to expect is 100–150 requests/s" in summary(slow)
        assert "than predicted" not in summary(firm(plan))

    def test_frames_have_the_ends(self, plan: Plan) -> None:
        frame = islands_frame(firm(plan))
        serving = frame["phase"].notna()
        assert set(frame.loc[serving, "band_low"]) == {0.72}
        assert frame.loc[~serving, "band_high"].isna().all()
        assert islands_frame(plan)["band_low"].isna().all()


class TestTimes:
    """Of a plan of buckets, its times having bands from half to twice of them."""

    @pytest.fixture
    def timed(self, plan: Plan) -> Plan:
        pooled = bucketed(plan)
        rows = tuple(
            replace(row, low_ms=0.5 * row.late_ms, high_ms=2.0 * row.late_ms) for row in pooled.outlook.latencies
        )
        return replace(pooled, buckets=replace(pooled.outlook, latencies=rows))

    def test_they_stand_beside_the_bounds(self, timed: Plan) -> None:
        late = [row.late_ms for row in latencies_at(timed, LoadPoint.DEMAND, Phase.PREFILL)]
        assert range_span(latencies_at(timed, LoadPoint.DEMAND, Phase.PREFILL)) == time_span(
            (0.5 * min(late), 2 * max(late))
        )
        page = summary(timed)
        assert "TTFT P99 1.21–1.86 s (P10–P90 604 ms–3.72 s, bound 4 s)" in page.splitlines()[2]
        assert "| P50 | P99 | P10–P90 | Bound |" in page
        bands = [shown.band for shown in plan_page(timed).figures if shown.label.startswith("TTFT")]
        assert bands == ["P10–P90: 604 ms–3.72 s; bound 4 s"]
        assert latency_frame(timed)["high_ms"].tolist() == [row.high_ms for row in timed.outlook.latencies]

    def test_where_a_bucket_has_none_nothing_is_said_of_all(self, timed: Plan) -> None:
        rows = timed.outlook.latencies
        without = (replace(rows[0], low_ms=None, high_ms=None), *rows[1:])
        first = [row for row in without if (row.load, row.phase) == (rows[0].load, rows[0].phase)]
        assert range_span(first) == ""
        assert range_span(rows[1:2]) != ""


class TestFigures:
    def test_rates_have_bars_from_end_to_end(self, plan: Plan) -> None:
        upper, lower = figure(firm(plan), "throughput").axes
        mass = plan.scenario.workload.probabilities
        for axes in (upper, lower):
            (bars,) = [c for c in axes.collections if c.get_label() == "P10–P90 of the rate"]
            ends = [(segment[0][1], segment[1][1]) for segment in bars.get_segments()]
            assert ends == [pytest.approx((140 * p, 225 * p)) for p in mass]
            assert axes.get_ylim()[1] >= 225 * max(mass)

    def test_the_plans_trial_has_a_bar(self, plan: Plan) -> None:
        axes = figure(firm(plan), "search").axes[0]
        (bar,) = [c for c in axes.collections if c.get_label() == "P10–P90 of its rate"]
        (segment,) = bar.get_segments()
        assert [y for _, y in segment] == pytest.approx([140, 225])
        assert not [c for c in figure(plan, "search").axes[0].collections if c.get_label() == "P10–P90 of its rate"]


class TestWhoIsBetter:
    def compared(self, old: float, new: float, likely: float | None) -> RateComparison:
        bands = [RateBand(low_rps=0.8 * rps, high_rps=1.2 * rps) if likely is not None else None for rps in (old, new)]
        return RateComparison(old_rps=old, new_rps=new, old_band=bands[0], new_band=bands[1], probability_faster=likely)

    def test_the_faster_is_named_and_how_likely(self) -> None:
        said = rate_sentence(self.compared(100.0, 103.0, 0.71), "A", "B")
        assert said == "Rate: 100.0 (80–120) → 103.0 (80–120) requests/s; B is faster by 3.0 % (likely: 71 %)."
        assert "A is faster by 3.0 % (likely: 71 %)" in rate_sentence(self.compared(103.0, 100.0, 0.29), "A", "B")

    def test_without_bands_it_says_that_nobody_knows(self) -> None:
        said = rate_sentence(self.compared(100.0, 150.0, None), "A", "B")
        assert said == (
            "Rate: 100.0 → 150.0 requests/s; B is faster by 50 % as predicted (how likely is not known: no band)."
        )

    def test_equal_rates_and_equal_names(self) -> None:
        assert "both are predicted to serve the same" in rate_sentence(self.compared(100.0, 100.001, 0.5), "A", "B")
        assert "the new plan is faster" in rate_sentence(self.compared(100.0, 110.0, 1.0), "A", "A")

    def test_a_prediction_that_errors_speak_against_is_told_so(self) -> None:
        said = rate_sentence(self.compared(100.0, 101.0, 0.3), "A", "B")
        assert "B is faster by 1.0 % as predicted, yet in truth rather slower (likely: 70 %)" in said

    @pytest.mark.parametrize(
        ("probability", "said"),
        [
            (1.0, "very likely: >99 %"),
            (0.93, "very likely: 93 %"),
            (0.71, "likely: 71 %"),
            (0.52, "as likely as not: 52 %"),
            (0.2, "unlikely: 20 %"),
            (0.0, "unlikely: <1 %"),
        ],
    )
    def test_words(self, probability: float, said: str) -> None:
        assert likelihood(probability) == said
