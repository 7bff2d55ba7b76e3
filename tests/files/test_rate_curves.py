"""Rate curves: those that are shipped, and files of one's own."""

import pytest

from planner.errors import InputError
from planner.files import load_rate_curve, shipped_rate_curves

OWN = "name: mine\nspan_s: 30\nrates: |\n  start_s,requests_per_s\n  0,2\n  10,0.5\n"


@pytest.mark.parametrize(
    ("pool", "windows", "mean", "mean_over_peak"),
    [
        ("deepseek-r1", 144, 16.0147, 0.38),
        ("m-large", 2016, 195.844, 0.34),
        ("m-mid", 2016, 1790.06, 0.52),
        ("m-small", 2016, 1174.40, 0.30),
    ],
)
def test_shipped_curves_have_the_figures_of_their_source(pool, windows, mean, mean_over_peak) -> None:
    """Means and peaks as computed from the source's files by themselves."""
    curve = load_rate_curve(f"servegen-{pool}")
    assert (len(curve.rates), curve.span_s) == (windows, 600 * windows)
    assert curve.mean_rate == pytest.approx(mean, rel=1e-5)
    assert curve.mean_rate / max(curve.rates) == pytest.approx(mean_over_peak, abs=0.005)
    assert curve.licence == "Apache-2.0"
    assert "alibaba/ServeGen @f891d11" in curve.source
    assert "NSDI 2026" in curve.citation


def test_all_shipped_curves_are_known_by_their_names() -> None:
    assert {load_rate_curve(name).name for name in shipped_rate_curves()} == set(shipped_rate_curves())
    assert len(shipped_rate_curves()) == 4
    with pytest.raises(InputError, match=r"no rate curve 'servegen-m-larg'.*servegen-m-large"):
        load_rate_curve("servegen-m-larg")


def test_a_curve_of_ones_own(tmp_path) -> None:
    (tmp_path / "mine.yaml").write_text(OWN)
    curve = load_rate_curve("mine.yaml", tmp_path)
    assert (curve.starts_s, curve.rates, curve.mean_rate) == ((0, 10), (2, 0.5), 1.0)
    day = curve.over(86_400.0)
    assert (day.starts_s, day.span_s, day.mean_rate) == ((0, 28_800), 86_400, 1.0)


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("start_s,requests_per_s", "seconds,rate", "rates must begin with start_s,requests_per_s, got seconds,rate"),
        ("  0,2\n", "  1,2\n", "rates must begin at second 0, got 1"),
        ("  0,2\n  10,0.5\n", "", "rates must begin at second 0, got only a header"),
        ("  10,0.5", "  0,0.5", "ascend to span_s: row 1 before row 2, got 0"),
        ("span_s: 30", "span_s: 10", "ascend to span_s: row 2 before span_s, got 10"),
        ("span_s: 30\n", "", "span_s must be a number"),
        ("  10,0.5", "  10,-0.5", "a number of at least 0 in row 2, requests_per_s, got '-0.5'"),
        ("  10,0.5", "  10,nan", "a number of at least 0 in row 2, requests_per_s, got 'nan'"),
        ("  10,0.5", "  10", "2 cells in row 2, got 1"),
        ("  0,2\n  10,0.5\n", "  0,0\n  10,0\n", "a rate above 0, got only zeros"),
        ("name: mine", "nome: mine", "nome is not a known key"),
    ],
)
def test_files_that_are_no_curve_are_refused(tmp_path, before, after, words) -> None:
    assert before in OWN
    path = tmp_path / "mine.yaml"
    path.write_text(OWN.replace(before, after))
    with pytest.raises(InputError) as refusal:
        load_rate_curve(str(path))
    assert words in refusal.value.message
    assert refusal.value.hint
