"""What trials tell of parameters: the formula against counts by hand, limits, and the two figures."""

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr

from planner.errors import InputError
from planner.report import figure, figures_of
from planner.report.kit.tree import Chart
from planner.report.plan.importance import explained, importance_of, rank_correlation
from planner.report.plan.search import parameter_plots, pareto_plots, search_section


@pytest.fixture
def searched(plan):
    """A plan whose 40 trials serve 10 requests/s an island of one parameter; a second one is noise, a third fixed."""
    draw = random.Random(0)
    trials = tuple(
        replace(
            plan.search.trials[0],
            index=k,
            iteration=k // 10,
            parameters=(("fixed", 3.0), ("islands_H20", float(k % 8)), ("skew_H20", draw.uniform(-5, 5))),
            throughput_rps=10.0 + 10.0 * (k % 8) + draw.uniform(0, 1),
            error="",
        )
        for k in range(40)
    )
    return replace(plan, search=replace(plan.search, trials=trials, best_trial=7))


def test_the_formula_by_hand():
    # two groups of two: means 2 and 6, total mean 4; SSB = 16, SSW = 4, n - k = 2: (16 - 1 * 4 / 2) / 20
    assert explained([1, 1, 2, 2], [1, 3, 5, 7]) == pytest.approx(0.7)
    assert explained([1, 1, 2, 2], [1, 7, 1, 7]) == 0.0
    assert explained([1, 2, 3, 4], [5, 5, 5, 5]) == 0.0


def test_a_shape_that_no_correlation_sees():
    values = [float(k) for k in range(-20, 21)]
    rates = [value**2 for value in values]
    assert rank_correlation(values, rates) == pytest.approx(0.0)
    assert explained(values, rates) > 0.8


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 9)), min_size=4, max_size=40))
def test_rank_correlation_is_scipys(pairs):
    first, second = [float(a) for a, _ in pairs], [float(b) for _, b in pairs]
    if len(set(first)) == 1 or len(set(second)) == 1:
        assert rank_correlation(first, second) == 0.0
    else:
        assert rank_correlation(first, second) == pytest.approx(spearmanr(first, second).statistic)


@given(st.lists(st.tuples(st.floats(-5, 5), st.floats(0, 100)), min_size=4, max_size=40))
def test_shares_are_shares_and_know_no_order(pairs):
    share = explained([a for a, _ in pairs], [b for _, b in pairs])
    assert 0 <= share <= 1
    assert explained([a for a, _ in pairs[::-1]], [b for _, b in pairs[::-1]]) == pytest.approx(share, abs=1e-9)


def test_noise_explains_next_to_nothing(searched):
    rows = importance_of(searched)
    assert [row.name for row in rows] == ["islands_H20", "skew_H20"]  # what never varied tells nothing
    assert rows[0].share > 0.99
    assert rows[0].rank_correlation > 0.9
    assert rows[1].share < 0.3


def test_the_bars_and_the_slices_are_the_trials(searched):
    assert {"importance", "slices"} <= set(figures_of(searched))
    (axes,) = figure(searched, "importance").axes
    shares = [row.share for row in importance_of(searched)]
    assert [bar.get_width() for bar in axes.patches] == pytest.approx([100 * share for share in shares])
    assert "(%)" in axes.get_xlabel()
    islands = figure(searched, "slices").axes[0]
    dots = next(dots for dots in islands.collections if dots.get_label() == "one layout")
    assert len(dots.get_offsets()) == 40
    (star,) = (dots for dots in islands.collections if dots.get_label() == "the plan (trial 7)")
    assert star.get_offsets().tolist() == [[7.0, searched.search.trials[7].throughput_rps]]
    assert islands.get_ylabel() == "rate (requests/s)"
    assert islands.get_xlabel() == "islands_H20"


def test_a_plan_solved_for_has_none_and_says_so(plan):
    solved = replace(plan, search=replace(plan.search, trials=plan.search.trials[:1]))
    assert not {"importance", "slices"} & set(figures_of(solved))
    with pytest.raises(InputError) as caught:
        figure(solved, "importance")
    assert "solved for" in str(caught.value.hint)


def test_the_page_shows_what_parameters_explain(searched, plan):
    charts = {block.name: block for block in search_section(searched).blocks if isinstance(block, Chart)}
    (bars,) = charts["search-parameters"].traces
    assert bars["x"] == ["islands_H20", "skew_H20"]
    assert bars["y"] == pytest.approx([100 * row.share for row in importance_of(searched)])
    assert parameter_plots(replace(plan, search=replace(plan.search, trials=plan.search.trials[:1]))) == ()
    assert pareto_plots(plan) == ()
