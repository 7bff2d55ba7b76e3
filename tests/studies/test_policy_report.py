"""Online policies as table, page and figures: the study's published savings, then hand-made runs."""

from collections import defaultdict

import pytest
from reference_data import reference_rows

from planner.domain import Semantics
from planner.errors import InputError
from planner.report import encode_figure
from planner.studies.policies import panels as policy_panels
from planner.studies.policies.means import combines_power, policy_curves, policy_title, saving_at
from planner.studies.policies.page import metrics_frame, policies_page
from planner.studies.policies.plots import (
    PAPER_FIGURES,
    POLICY_FIGURES,
    kinds_of,
    paper_figures,
    policy_figure,
    policy_figures,
)
from planner.studies.policies.records import OnlineMetrics, OnlineRun

GPU_MILLI = 100_000
BASELINE = "fgd"
POLICIES = ("fgd", "pwr", "pwr:0.1+fgd:0.9", "pwr:0.2+fgd:0.8", "bestfit", "dotprod", "gpupacking", "gpuclustering")


def run(policy: str, lost: float, watts: float, last: int = 130, saturated: int = 90) -> OnlineRun:
    """`lost` percent of the GPUs stay idle beyond `saturated`; `watts` are drawn by GPUs a percent held, CPUs 50."""
    rows = []
    for percent in range(last + 1):
        held = min(percent, max(saturated, 100 - lost)) if percent <= saturated else min(percent, 100 - lost)
        rows.append(
            OnlineMetrics(
                arrived_percent=percent,
                allocation_percent=held,
                fragmentation_percent=lost,
                fragmentation_ratio_percent=min(100.0, 100 * lost / max(1e-9, 100 - held)),
                failures=max(0, percent - round(held)),
                cpu_power_w=1000.0 + 50 * held,
                gpu_power_w=2000.0 + watts * held,
                arrived_gpu_milli=1000.0 * percent,
                used_gpu_milli=1000.0 * held,
            )
        )
    return OnlineRun(
        policy=policy, semantics=Semantics.REFERENCE, gpu_milli=GPU_MILLI, decisions=(), metrics=tuple(rows)
    )


def runs(last: int = 130, seeds: int = 2) -> dict[str, list[OnlineRun]]:
    return {
        label: [run(label, place + 2 + seed, 100 - 10 * ("pwr" in label), last) for seed in range(seeds)]
        for place, label in enumerate(POLICIES)
    }


def test_published_means_give_the_published_savings() -> None:
    rows = defaultdict(list)
    for row in reference_rows("openb_reference/power_10seeds.csv"):
        at = 100 * float(row["arrived_ratio"])
        if float(row["used_ratio"]) > 0 and at >= 1:
            rows[row["policy"]].append((round(at), row))
    found = {
        policy: [
            OnlineRun(
                policy=policy,
                semantics=Semantics.REFERENCE,
                gpu_milli=6_212_000,
                decisions=(),
                metrics=tuple(published(at, row) for at, row in listed),
            )
        ]
        for policy, listed in rows.items()
    }
    curves = policy_curves(found, "FGD")
    compared = 0
    for policy, listed in rows.items():
        for at, row in listed:
            saving = saving_at(curves[policy], curves["FGD"], at)
            assert saving == pytest.approx(float(row["saving_vs_FGD_pct"]), abs=1e-3)
            compared += 1
    assert compared > 300


def published(at: int, row: dict[str, str]) -> OnlineMetrics:
    return OnlineMetrics(
        arrived_percent=at,
        allocation_percent=100 * float(row["used_ratio"]),
        fragmentation_percent=0.0,
        fragmentation_ratio_percent=0.0,
        failures=0,
        cpu_power_w=float(row["power_cpu_w"]),
        gpu_power_w=float(row["power_gpu_w"]),
        arrived_gpu_milli=6_212_000 * float(row["arrived_ratio"]),
        used_gpu_milli=6_212_000 * float(row["used_ratio"]),
    )


def test_names() -> None:
    assert policy_title("pwr:0.1+fgd:0.9") == "0.1 PWR + 0.9 FGD"
    assert policy_title("gpuclustering") == "GpuClustering"
    assert (policy_title("adaptive"), combines_power("adaptive")) == ("PWR + FGD by load", True)
    assert policy_title("weights by load") == "weights by load"
    assert [combines_power(label) for label in ("pwr", "pwr:0.1+fgd:0.9", "fgd", "bestfit:0.3+pwr:0.7")] == [
        True,
        True,
        False,
        False,
    ]


def test_a_row_a_policy_run_and_percent() -> None:
    frame = metrics_frame(runs(), seeds=(42, 43))
    assert len(frame) == len(POLICIES) * 2 * 131
    row = frame[(frame.policy == "pwr") & (frame.seed == 43) & (frame.arrived_percent == 100)].iloc[0]
    assert (row.allocation_percent, row.cpu_power_w, row.grar) == (96, 1000 + 50 * 96, 0.96)
    assert list(metrics_frame(runs()).seed.unique()) == [0, 1]


def cells(page: str, heading: str) -> dict[str, list[str]]:
    text = page.split(f"## {heading}\n")[1].split("\n## ", maxsplit=1)[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"]
    return {row[0]: row[1:] for row in [rows[0], *rows[2:]]}


def test_the_page_has_allocation_savings_and_grar() -> None:
    page = policies_page(runs(), BASELINE, name="a_trace", figures={"power": "figures/power.png"})
    assert page.startswith("# Online policies: a\\_trace\n")
    assert "**FGD holds most GPUs at 100 % asked for: 97.50 %.** PWR draws least from 10 to 80 %" in page
    held = cells(page, "Allocation")
    assert held["Policy"] == ["80 %", "90 %", "95 %", "100 %", "110 %", "120 %", "130 %"]
    assert held["FGD"][3] == "97.50 ± 0.71"  # 98 and 97
    saved = cells(page, "Power saved")
    # at 50 %: 3000 + 50 * 150 W against 3000 + 50 * 140 W
    assert saved["PWR"][4] == f"{100 * 500 / 10500:.1f}"
    assert saved["BestFit"][4] == "0.0"
    assert saved["FGD"][4] == "10.50 kW"
    assert cells(page, "At 100 % asked for")["DotProd"][:2] == ["0.9250", "7.50"]
    assert "![power](figures/power.png)" in page


def test_equals_are_named_together() -> None:
    alike = {label: [run(label, 4, 100)] for label in ("fgd", "bestfit", "dotprod")}
    page = policies_page({**alike, "random": [run("random", 9, 100)]}, BASELINE)
    assert "**FGD, BestFit and DotProd hold most GPUs at 100 % asked for: 96.00 %.** None draws less than FGD" in page


@pytest.mark.parametrize("last", [3, 85])
def test_runs_that_end_early_leave_columns_out(last: int) -> None:
    page = policies_page(runs(last, seeds=1), BASELINE)
    assert "None: less was asked for." in page
    assert "±" not in page
    assert ("None: too little was asked for." in page) == (last < 80)
    for kind in POLICY_FIGURES:
        assert policy_figure(kind, {"": runs(last, seeds=1)}, BASELINE).axes


def line_of(axes, label: str):
    return next(line for line in axes.lines if line.get_label() == label)


def test_figures_show_the_means() -> None:
    (savings_axes,) = policy_figure("savings", {"t": runs()}, BASELINE).axes
    line = line_of(savings_axes, "PWR")
    assert list(line.get_xdata()) == list(range(101))
    assert line.get_ydata()[50] == pytest.approx(100 * 500 / 10500)
    assert set(line_of(savings_axes, "FGD").get_ydata()) == {0}
    (grar_axes,) = policy_figure("grar", {"t": runs()}, BASELINE).axes
    assert line_of(grar_axes, "DotProd").get_ydata()[-1] == pytest.approx(0.925)
    assert grar_axes.get_xlim() == (90, 100)
    (held_axes,) = policy_figure("allocation", {"t": runs()}, BASELINE).axes
    assert line_of(held_axes, "BestFit").get_ydata()[-1] == pytest.approx(93.5)


def test_power_is_stacked() -> None:
    axes, share = policy_figure("power", {"t": runs()}, BASELINE).axes
    cpus, gpus = (band.get_paths()[0].vertices[:, 1].max() for band in axes.collections)
    assert cpus == pytest.approx((1000 + 50 * 97.5) / 1000)
    assert gpus == pytest.approx((3000 + 150 * 97.5) / 1000)
    assert line_of(share, "share of GPUs").get_ydata()[0] == pytest.approx(100 * 2 / 3)


def test_combinations_are_pwr_and_fgd_alone() -> None:
    upper, lower = policy_figure("combinations", {"t": runs()}, BASELINE).axes
    titles = ["0.1 PWR + 0.9 FGD", "0.2 PWR + 0.8 FGD", "FGD", "PWR"]
    assert sorted(str(line.get_label()) for line in upper.lines) == titles
    assert sorted(str(line.get_label()) for line in lower.lines) == titles
    without = {label: found for label, found in runs().items() if "pwr" not in label}
    assert "combinations" not in kinds_of(without)
    drawn = policy_figures(without, BASELINE)
    assert set(drawn) == set(POLICY_FIGURES) - {"combinations"}
    assert all(picture.startswith(b"\x89PNG") for picture in drawn.values())


def test_a_policy_looks_the_same_for_every_trace() -> None:
    some = {label: found for label, found in runs().items() if label in ("fgd", "dotprod", "pwr")}
    left, right = policy_figure("savings", {"a": runs(), "b": some}, BASELINE).axes
    for title in ("FGD", "DotProd", "PWR"):
        assert line_of(left, title).get_color() == line_of(right, title).get_color()
    assert [text.get_text() for text in right.get_legend().get_texts()] == list(map(policy_title, POLICIES))


def test_the_zoom_follows_the_policies_not_one_of_them() -> None:
    def panel(starts: dict[str, int]):
        found = {label: [run(label, 100 - at, 100, saturated=at)] for label, at in starts.items()}
        curves = policy_curves(found, BASELINE)
        return policy_panels.TracePanel(name="", curves=curves, baseline=BASELINE, labels=tuple(curves))

    assert policy_panels.zoom_of(panel({"fgd": 95, "pwr": 91, "random": 40})) == 90
    assert policy_panels.zoom_of(panel({"fgd": 40, "pwr": 32, "random": 20})) == 30


def test_the_papers_figures_of_the_traces_at_hand() -> None:
    assert list(PAPER_FIGURES) == [f"figure-{k:02}" for k in range(1, 11)]
    drawn = paper_figures({"default": runs(), "multigpu20": runs()})
    assert sorted(drawn) == ["figure-01", "figure-02", "figure-03", "figure-07"]
    assert len(set(drawn.values())) == 4


@pytest.mark.parametrize("kind", POLICY_FIGURES)
def test_nothing_leaves_the_canvas(kind: str) -> None:
    figure = policy_figure(kind, {f"a_$long$_name_{'of_a_trace_' * 6}{k}": runs() for k in range(2)}, BASELINE)
    figure.canvas.draw()
    box, (width, height) = figure.get_tightbbox(), figure.get_size_inches()
    assert min(box.x0, box.y0) >= 0
    assert (box.x1 <= width, box.y1 <= height) == (True, True)


def test_equal_runs_equal_bytes() -> None:
    one, other = (encode_figure(policy_figure("savings", {"t": runs()}, BASELINE)) for _ in range(2))
    assert one == other


def test_what_cannot_be_drawn_is_told() -> None:
    for broken, said in (
        (lambda: policy_figure("savings", {"t": runs()}, "nobody"), "baseline: must be one of"),
        (lambda: policy_figure("pie", {"t": runs()}, BASELINE), "figure: must be one of"),
        (lambda: policy_figure("savings", {}, BASELINE), "traces: must hold"),
        (lambda: policy_figure("combinations", {"t": {"fgd": runs()["fgd"]}}, BASELINE), "needs runs of PWR"),
        (lambda: policies_page({"fgd": []}, BASELINE), "they share none"),
    ):
        with pytest.raises(InputError, match=said):
            broken()
