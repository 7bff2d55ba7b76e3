"""Means, spreads and verdicts of made-up results, told by hand."""

import pytest
from study_outcomes import outcome, study

from planner.studies.chapter5.records import spread
from planner.studies.chapter5.report.frames import study_frame
from planner.studies.chapter5.report.page import study_page


def test_spread_by_hand() -> None:
    found = spread((1.0, 3.0, 5.0))
    assert (found.mean, found.deviation, found.low, found.high) == (3.0, 2.0, 1.0, 5.0)
    assert spread((4.0,)).deviation is None
    assert spread((0.1 + 0.2, 0.3)).deviation == 0


def test_curves_and_best_by_hand() -> None:
    found = outcome("skew range", {1.0: [[10, 20, 30], [20, 20, 50]], 5.0: [[5, 5, 5]]}, cpu_s={1.0: 2.0})
    first = found.cases[0]
    assert [(s.mean, s.low, s.high) for s in first.by_iteration] == [(15, 10, 20), (20, 20, 20), (40, 30, 50)]
    assert first.by_iteration[0].deviation == pytest.approx(50**0.5)
    assert (first.best.seed, found.highest_rps) == (1, 50)
    assert first.cpu_s.mean == 6.0


def verdict(figure: str, *outcomes) -> tuple[bool | None, str]:
    found = [one for one in study([figure], *outcomes).findings if one.figure == figure]
    return found[0].holds, found[0].numbers


def test_variance_by_batch_size() -> None:
    falls = outcome("batch size", {2.0: [[100], [200]], 16.0: [[190], [200]]})
    rises = outcome("batch size", {2.0: [[190], [200]], 16.0: [[100], [200]]})
    assert verdict("5.5", falls) == (True, "requests/s by batch size: 2: 150 ± 70.7, 16: 195 ± 7.1")
    assert verdict("5.5", rises)[0] is False
    assert verdict("5.5", outcome("batch size", {2.0: [[100]], 16.0: [[100]]}))[0] is None


@pytest.mark.parametrize(("cpu_s", "holds"), [({2.0: 1.0, 8.0: 4.0}, True), ({2.0: 1.0, 8.0: 1.0}, False)])
def test_time_by_batch_size(cpu_s: dict[float, float], holds: bool) -> None:
    found = verdict("5.6", outcome("batch size", {2.0: [[1, 1]], 8.0: [[1, 1]]}, cpu_s=cpu_s))
    assert found[0] is holds
    assert f"power {1.0 if holds else 0.0:.2f}" in found[1]


@pytest.mark.parametrize(("widest", "holds"), [(104, True), (150, False), (99, False)])
def test_wider_skew(widest: float, holds: bool) -> None:
    assert verdict("5.7", outcome("skew range", {1.0: [[100]], 5.0: [[widest]]}))[0] is holds


@pytest.mark.parametrize(
    ("rates", "holds", "factors"), [((800, 400, 200), True, "0.50, 0.50"), ((800, 780, 700), False, "0.97, 0.90")]
)
def test_least_size(rates: tuple[float, ...], holds: bool, factors: str) -> None:
    found = outcome("least island size", {v: [[rate]] for v, rate in zip((2.0, 4.0, 8.0), rates, strict=True)})
    answer, told = verdict("5.8", found)
    assert answer is holds
    assert f"each doubling leaves {factors} of it" in told


def test_a_step_of_two_doublings_counts_as_two() -> None:
    assert verdict("5.8", outcome("least island size", {2.0: [[800]], 8.0: [[200]]}))[0] is True


def direct(bo: float, saasbo: float, bo_s: float = 1.0, saasbo_s: float = 1.0):
    return (
        outcome("direct, batch size, SAASBO", {4.0: [[saasbo, saasbo]]}, cpu_s={4.0: saasbo_s}),
        outcome("direct, batch size, BO", {4.0: [[bo, bo]]}, cpu_s={4.0: bo_s}),
    )


@pytest.mark.parametrize(("bo", "saasbo", "holds"), [(100, 90, True), (100, 100, True), (90, 100, False)])
def test_bo_against_saasbo(bo: float, saasbo: float, holds: bool) -> None:
    assert verdict("5.10", *direct(bo, saasbo))[0] is holds
    assert verdict("5.10", direct(bo, saasbo)[1])[0] is None


@pytest.mark.parametrize(("saasbo_s", "holds"), [(10.0, True), (1.5, False)])
def test_time_of_saasbo(saasbo_s: float, holds: bool) -> None:
    assert verdict("5.11", *direct(1, 1, saasbo_s=saasbo_s))[0] is holds


@pytest.mark.parametrize(("divider", "holds"), [(300, True), (150, True), (105, False)])
def test_direct_against_divider(divider: float, holds: bool) -> None:
    found = study(["5.5", "5.9"], outcome("batch size", {4.0: [[divider]]}), *direct(100, 90))
    (claim,) = [one for one in found.findings if "divider" in one.claim]
    assert claim.holds is holds
    (alone,) = [one for one in study(["5.9"], *direct(100, 90)).findings if "divider" in one.claim]
    assert alone.holds is None


@pytest.mark.parametrize(("rates", "holds"), [((10, 20), True), ((20, 10), False)])
def test_slots(rates: tuple[float, float], holds: bool) -> None:
    found = outcome("direct, slots, SAASBO", {8.0: [[rates[0]]], 16.0: [[rates[1]]]})
    assert verdict("5.12", found)[0] is holds


@pytest.mark.parametrize(("optimum", "holds"), [(150.0, True), (90.0, False)])
def test_mixed_fleets_are_compared_by_their_optima(optimum: float, holds: bool) -> None:
    rates = {0.0: 80, 1.0: 80, 2.0: 50, 3.0: 50, 4.0: 100, 5.0: 100}
    optima = {0.0: 150.0, 1.0: 150.0, 2.0: optimum, 3.0: optimum, 4.0: 100.0, 5.0: 100.0}
    searched = outcome("inventories", {value: [[rate]] for value, rate in rates.items()}, optimum=optima)
    (claim,) = study(["table5.1"], searched).findings
    assert claim.holds is holds
    assert f"a/c 0.80, b/c 0.50 (optima 1.50, {optimum / 100:.2f}; paper 1.27, 1.43)" in claim.numbers


def test_page_and_frames_hold_the_numbers() -> None:
    levels = outcome("inventories", {float(k): [[100.0 + k], [110.0 + k]] for k in range(6)}, optimum=120.0)
    sweep = outcome("least island size", {2.0: [[10.0, 20.0], [10.0, 40.0]]})
    found = study(["table5.1", "5.8"], levels, sweep)
    page = study_page(found)
    assert "| 105.0 ± 7.1 | 100.0–110.0 | 3.00 | 120.0 | 176 ± 20 | 18 ± 18 |" in page
    assert "| 2 | 30.00 ± 14 | 20.00–40.00 | 1,000 |" in page
    assert "not physical" in page
    rows = study_frame(found, "5.8")
    assert list(rows["best_rps"]) == [10, 20, 10, 40]
    assert list(rows["seed"]) == [0, 0, 1, 1]
    assert list(rows["iteration"]) == [0, 1, 0, 1]
    table = study_frame(found, "table5.1")
    assert list(table["mean_rps"]) == [105.0 + k for k in range(6)]
    assert list(table["paper_mean_rps"]) == [176, 138, 199, 126, 139, 114]
    assert list(table["gpus_H20"]) == [128, 128, 128, 128, 0, 0]
