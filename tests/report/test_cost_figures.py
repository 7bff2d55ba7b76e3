"""Cost figures and frames: the records' numbers in artists and rows, nothing cut off, the same bytes every time."""

import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from drawn_figures import laid_out, require_apart, require_on_canvas
from matplotlib.figure import Figure

import planner
from planner.domain import (
    PHASES,
    Calibration,
    CalibrationFit,
    ConfigurationRates,
    Factor,
    JudgedMeasurement,
    Measurement,
    Origin,
    ParallelConfig,
    PartOfStep,
    Phase,
    StepExplanation,
)
from planner.errors import InputError
from planner.report import (
    QUANTITIES,
    accuracy_figure,
    accuracy_frame,
    breakdown_figure,
    configurations_figure,
    configurations_frame,
    factors_frame,
    parts_frame,
    roofline_figure,
)
from planner.report.cost.configurations import deviations, strongest
from planner.report.kit.style import encoded

FACTORS = (
    Factor(name="gemm", family="h20", value=0.94, unit="1", origin=Origin.PUBLISHED, source="a paper", gpus=("H20",)),
    Factor(name="layer_us", family="any", value=30, unit="us", origin=Origin.DEFAULT, source="estimate"),
)


def part(name, compute=0.0, memory=0.0, network=0.0, latency=0.0, flops=0.0, moved=0.0) -> PartOfStep:
    """A part as the cost stage adds it up; flops in TFLOP, moved in GB."""
    shares = {"compute": compute, "memory": memory, "network": network, "latency": latency}
    return PartOfStep(
        name=name,
        ms=max(compute, memory) + network + latency,
        formula_ms=max(compute, memory) + network + latency,
        limit_ms=max(compute, memory, network) / 2,
        compute_ms=compute,
        memory_ms=memory,
        network_ms=network,
        latency_ms=latency,
        bound=max(shares, key=shares.__getitem__),
        flops=flops * 1e12,
        bytes=moved * 1e9,
    )


PARTS = (
    part("projections", compute=40, memory=8, flops=8, moved=25),
    part("attention", compute=200, memory=15, flops=20, moved=45),
    part("small kernels", memory=4, latency=6, moved=10),
    part("shared experts", compute=8, memory=1.6, flops=1.6, moved=5),  # where the projections are
    part("head", compute=0.5, memory=2, flops=0.01, moved=2),
    part("dispatch", network=30),
    part("combine", network=60),
)


def build_step(**changes) -> StepExplanation:
    """350 ms of parts, 70 of them hidden communication."""
    step = StepExplanation(
        gpu="H20",
        model="deepseek-v3",
        phase=Phase.DECODE,
        parallel=ParallelConfig(tp=1, dp=32),
        length=4096,
        batch=314,
        parts=PARTS,
        step_ms=280.0,
        hidden_ms=70.0,
        waiting=1.0,
        total_ms=280.0,
        tokens_per_s_per_gpu=1000.0,
        roofline_tokens_per_s_per_gpu=2000.0,
        bound="compute",
        weights_gb=30.0,
        cache_gb=40.0,
        usable_gb=80.0,
        peak_tflops=(("FP16", 148.0), ("FP8", 296.0)),
        memory_gb_s=4000.0,
        origin=Origin.PUBLISHED,
        origin_source="a test",
        factors=FACTORS,
    )
    return replace(step, **changes)


FAST = {"gpu": "A $long$ name of a GPU-NVL72", "peak_tflops": (("FP16", 2500.0), ("FP4", 1e4)), "memory_gb_s": 8000.0}
STEPS = {
    "one": [build_step()],
    "two": [build_step(), build_step(phase=Phase.PREFILL, **FAST)],
    "five": [build_step(), build_step(**FAST), build_step(total_ms=560.0), build_step(gpu="H800"), build_step()],
    "nothing-computes": [build_step(parts=PARTS[-2:], step_ms=20.0, bound="network")],
    "nothing-hidden": [build_step(parts=PARTS[:4], step_ms=258.0, hidden_ms=0.0, total_ms=258.0)],
}


def rates_of(gpu, tp, rates, replicas=1, phase=Phase.DECODE) -> ConfigurationRates:
    """A configuration of 64 GPUs at 128, 256, … tokens."""
    return ConfigurationRates(
        gpu=gpu,
        phase=phase,
        parallel=ParallelConfig(tp=tp, dp=64 // tp // replicas, replicas=replicas),
        lengths=tuple(128 * 2**k for k in range(len(rates))),
        rates_rps=tuple(map(float, rates)),
        batch_sizes=tuple(8 for _ in rates),
    )


SMALL = (
    rates_of("H20", 1, (100, 90, 40)),
    rates_of("H20", 2, (80, 95, 50)),
    rates_of("H20", 4, (50, 45, 0)),
    rates_of("H20", 8, (0, 0, 0)),
)
MANY = tuple(
    rates_of(gpu, tp, [scale * 1000 / (tp + k) / replicas * (k < 9) for k in range(11)], replicas, phase)
    for gpu, scale in (("H20", 1.0), ("H800", 2.0), ("H200", 4.0))
    for phase in PHASES
    for tp in (1, 2, 4, 8, 16)
    for replicas in (1, 2, 4)
)
RATES = {
    "small": SMALL,
    "many": MANY,
    "nothing-fits": (rates_of("A100", 1, (0, 0)),),
    "one-length": (rates_of("H20", 1, (5,)), rates_of("H20", 2, (0.001,))),
}


def judged(gpu="H100", phase=Phase.DECODE, ms=100.0, after=95.0, left_out=90.0, fitted=True, **changes):
    """A measurement of 20 000 / ms tokens/s per GPU in decode."""
    measurement = Measurement(
        gpu=gpu,
        model="m",
        phase=phase,
        tp=1,
        dp=8,
        ep=8,
        length=2000,
        batch=20.0,
        ms=ms,
        fitted=fitted,
        source="a blog",
    )
    return JudgedMeasurement(
        measurement=replace(measurement, **changes),
        before_ms=2 * ms,
        after_ms=after,
        left_out_ms=left_out if fitted else float("nan"),
    )


FIT = CalibrationFit(
    calibration=Calibration(name="a $fit$", factors=FACTORS),
    points=(
        judged(),
        judged(gpu="H20", ms=102.0, balanced=True),
        judged(gpu="H20", phase=Phase.PREFILL, batch=2.0, ms=200.0, after=210.0, left_out=150.0),
        judged(gpu="H800", ms=60.0, after=50.0, fitted=False),
    ),
)
ONE = replace(FIT, points=FIT.points[:1])

FIGURES = {
    **{f"roofline-{name}": (roofline_figure, (steps,)) for name, steps in STEPS.items()},
    **{f"breakdown-{name}": (breakdown_figure, (steps,)) for name, steps in STEPS.items()},
    **{f"configurations-{name}-{q}": (configurations_figure, (r, q)) for name, r in RATES.items() for q in QUANTITIES},
    "accuracy": (accuracy_figure, (FIT,)),
    "accuracy-of-one": (accuracy_figure, (ONE,)),
    "accuracy-only-compared": (accuracy_figure, (replace(FIT, points=FIT.points[-1:]),)),
}
ONE_OF_EACH = ("roofline-two", "breakdown-two", "configurations-many-requests", "accuracy")
every_figure = pytest.mark.parametrize("name", FIGURES)


def drawn_again(name: str) -> Figure:
    """The figure of that name, built anew."""
    draw, arguments = FIGURES[name]
    return draw(*arguments)


def texts(drawn: Figure):
    """Every upright text that is drawn, with its box in pixels."""
    found = [*drawn.texts]
    for legend in (*drawn.legends, *(a.get_legend() for a in drawn.axes if a.get_legend())):
        found += [legend.get_title(), *legend.get_texts()]
    for axes in drawn.axes:
        found += [axes._left_title, axes.xaxis.label, axes.yaxis.label, *axes.texts]
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            found += [tick.label1 for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]
    upright = [t for t in found if t.get_visible() and t.get_text() and t.get_rotation() in (0.0, 90.0)]
    # an annotation's window extent would take in its line
    return [
        (t.get_text(), super(type(t), t).get_window_extent() if hasattr(t, "xyann") else t.get_window_extent())
        for t in upright
    ]


def said(drawn: Figure) -> str:
    """Everything that stands in the figure, in one string."""
    return "\n".join(text for text, _ in texts(drawn))


@every_figure
class TestEveryFigure:
    def test_nothing_leaves_the_canvas_or_runs_into_another(self, name):
        drawn = laid_out(drawn_again(name))
        require_on_canvas(drawn)
        require_apart(texts(drawn))

    def test_same_records_same_svg(self, name):
        if name in ONE_OF_EACH:
            assert encoded(drawn_again(name), "svg") == encoded(drawn_again(name), "svg")


class TestRoofline:
    def test_markers_stand_at_intensity_and_attained_rate(self):
        (axes,) = roofline_figure(STEPS["one"]).axes
        at = {c.get_label(): c.get_offsets().tolist()[0] for c in axes.collections}
        assert set(at) == {"projections", "attention", "shared experts", "head"}
        assert at["attention"] == pytest.approx([20e12 / 45e9, 20e12 / 0.2 / 1e12])
        areas = {c.get_label(): c.get_sizes()[0] for c in axes.collections}
        assert max(areas, key=areas.get) == "attention"

    def test_roofs_are_the_data_sheets(self):
        (axes,) = roofline_figure(STEPS["one"]).axes
        for line, peak in zip(axes.lines, (148.0, 296.0), strict=True):
            assert max(line.get_ydata()) == peak
            assert line.get_xdata()[1] == pytest.approx(peak / 4.0)

    def test_parts_at_one_place_share_a_label(self):
        told = [t.get_text() for t in roofline_figure(STEPS["one"]).axes[0].texts]
        assert "projections 11 %\nshared experts 2 %" in told

    def test_panels_share_their_axes_and_say_what_bounds(self):
        left, right = roofline_figure(STEPS["two"]).axes
        assert left.get_ylim() == right.get_ylim()
        assert left.get_xlim() == right.get_xlim()
        assert "bound by compute; 29 % of the time without FLOPs" in left._left_title.get_text()


class TestBreakdown:
    def test_bars_add_up_to_the_step(self):
        (axes,) = breakdown_figure(STEPS["one"]).axes
        bars = {c.get_label(): c.patches[0].get_width() for c in axes.containers}
        hidden = bars.pop("_container7")
        assert hidden == 70
        assert sum(bars.values()) == pytest.approx(280)
        assert bars["dispatch"] == pytest.approx(30 * 20 / 90)
        assert bars["attention"] == 200

    def test_the_label_tells_total_bound_and_share_of_the_roofline(self):
        drawn = said(breakdown_figure(STEPS["five"]))
        assert "280 ms, bound by compute; 1,000 tokens/s per GPU, 50 % of the roofline" in drawn
        assert "280 ms (560 ms per output token), bound by compute" in drawn
        assert "70.0 ms of communication hidden" in drawn


class TestConfigurations:
    def test_lines_break_where_nothing_is_served(self):
        (axes,) = configurations_figure(SMALL).axes
        lines = {line.get_label(): list(line.get_ydata()) for line in axes.lines}
        assert lines["tp1 dp64 ×1"] == [100, 90, 40]
        assert lines["tp4 dp16 ×1"][:2] == [50, 45]
        assert math.isnan(lines["tp4 dp16 ×1"][2])
        (cross,) = (c for c in axes.collections if c.get_label() == "does not fit")
        assert cross.get_offsets().tolist() == [[256, 45]]
        assert "1 of 4 configurations fit at no length" in said(axes.figure)
        assert "does not fit\nat the next length" in said(axes.figure)

    def test_the_deviation_is_the_papers(self):
        assert deviations(SMALL)[0] == pytest.approx((0 + 5 / 95 + 10 / 50) / 3)
        assert deviations(SMALL)[3] == 1.0

    def test_every_panels_best_is_strong(self):
        panels = [tuple(r for r in MANY if (r.gpu, r.phase) == key) for key in {(r.gpu, r.phase): 0 for r in MANY}]
        first = strongest(panels, 8)
        assert len(first) == 8
        assert first[0] == ParallelConfig(tp=1, dp=64)
        assert "7 others" in said(configurations_figure(MANY))

    @pytest.mark.parametrize(
        ("quantity", "first"), [("requests_per_gpu", 100 / 64), ("prompt_tokens", 12800), ("batch", 8)]
    )
    def test_quantities(self, quantity, first):
        (axes,) = configurations_figure(SMALL, quantity).axes
        (line,) = (line for line in axes.lines if line.get_label() == "tp1 dp64 ×1")
        assert line.get_ydata()[0] == pytest.approx(first)

    def test_the_note_stands_in_the_title(self):
        assert configurations_figure(SMALL, note="not physical").get_suptitle().endswith("[not physical]")


class TestAccuracy:
    def test_points_by_kind(self):
        (axes,) = accuracy_figure(FIT).axes
        by_kind = {}
        for line in axes.lines:
            by_kind.setdefault(line.get_label(), []).append((*line.get_xdata(), *line.get_ydata()))
        assert by_kind["fitted"][0] == pytest.approx((200, 200 * 100 / 95))
        assert by_kind["left out"][0] == pytest.approx((200, 200 * 100 / 90))
        assert by_kind["only compared with"] == [pytest.approx((2e4 / 60, 2e4 / 50))]
        assert len(by_kind["fitted"]) == len(by_kind["left out"]) == 3

    def test_errors_are_told(self):
        drawn = said(accuracy_figure(FIT))
        assert "3 measurements, fitted:\nmean error 6 %" in drawn
        assert "1 only compared with:\nmean error 20 %" in drawn
        assert "H20 decode\n2,000 × 20, balanced" in drawn


class TestFrames:
    def test_parts(self):
        frame = parts_frame(build_step()).set_index("name")
        assert list(frame.index) == [p.name for p in PARTS]
        assert frame["share"].sum() == pytest.approx(1)
        assert frame.loc["attention", "attained_tflops"] == pytest.approx(100)
        assert frame.loc["attention", "flops_per_byte"] == pytest.approx(20e12 / 45e9)
        assert frame.loc["dispatch", ["flops_per_byte", "attained_tflops"]].isna().all()

    def test_factors(self):
        frame = factors_frame(build_step())
        assert list(frame.columns) == ["name", "value", "unit", "origin", "source"]
        assert frame.iloc[0].tolist() == ["gemm", 0.94, "1", "published measurement", "a paper"]

    def test_configurations(self):
        frame = configurations_frame(SMALL)
        assert len(frame) == 12
        assert frame.query("tp == 2 and length == 256")["rate_rps"].tolist() == [95.0]
        assert (frame["tp"] * frame["dp"] * frame["pp"] * frame["replicas"] == 64).all()

    def test_accuracy(self):
        frame = accuracy_frame(FIT.points)
        assert frame["fitted"].tolist() == [True, True, True, False]
        assert frame["error"].tolist() == [p.after_error for p in FIT.points]
        assert frame["left_out_error"].isna().tolist() == [False, False, False, True]
        assert frame.loc[0, "predicted_tokens_per_s_per_gpu"] == pytest.approx(200 * 100 / 95)
        assert frame.loc[2, "measured_tokens_per_s_per_gpu"] == pytest.approx(2 * 2000 / 200 * 1000)

    def test_nothing_gives_empty_frames_with_their_columns(self):
        assert "rate_rps" in configurations_frame(()).columns
        assert "error" in accuracy_frame(()).columns


@pytest.mark.parametrize("draw", [roofline_figure, breakdown_figure, configurations_figure])
def test_nothing_to_draw_is_an_error_that_says_where_it_comes_from(draw):
    with pytest.raises(InputError, match="at least one entry"):
        draw([])


def test_unknown_quantity_lists_the_valid_ones():
    with pytest.raises(InputError) as caught:
        configurations_figure(SMALL, "pie")
    assert all(name in str(caught.value) for name in (*QUANTITIES, "'pie'"))


def test_the_doors_stay_functions_when_the_drawings_are_loaded():
    code = (
        "import sys, planner.report as r; assert not {'matplotlib', 'pandas'} & set(sys.modules); "
        "import planner.report.cost.roofline, planner.report.cost.breakdown; "
        "import planner.report.cost.configurations, planner.report.cost.accuracy; "
        "assert all(map(callable, (r.roofline_figure, r.breakdown_figure, r.configurations_figure, r.accuracy_figure)))"
    )
    root = Path(planner.__file__).parents[1]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
