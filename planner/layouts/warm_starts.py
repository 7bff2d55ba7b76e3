"""Layouts that a search begins with: solved for, rounded from the relaxation, or taken from earlier runs."""

from collections.abc import Iterator
from dataclasses import replace

from planner.assignment import rounded
from planner.domain import Layout, Scenario, WarmStart
from planner.errors import InfeasibleError, SolverError
from planner.evaluation.evaluator import Evaluator
from planner.layouts.certificate import RATE, is_exact, layout_settings, offer_of, solve_layout
from planner.layouts.queued_layouts import best_with_queues
from planner.search import Seed

EARLIER = "earlier"
OF_AUTO = (WarmStart.EXACT, WarmStart.RELAXATION)


def seeds_of(scenario: Scenario, evaluator: Evaluator) -> tuple[Seed, ...]:
    """The layouts of search.warm_start, each once; `Seed.origin` is its word, or `earlier`.

    They are made for the highest rate, as the layout programme sees it: neither the network nor further goals. One that
    is not to be had is left out: the search can do without. The method `auto` begins with both words; where it had to
    search because nothing was solved in time, with the relaxation.
    """
    words = scenario.search.warm_start
    if scenario.search.method.row.may_solve:
        words = (WarmStart.RELAXATION,) if is_exact(scenario) else OF_AUTO
    origins: dict[Layout, str] = {}
    for word in words:
        for layout in _solved(scenario, evaluator) if word is WarmStart.EXACT else _relaxed(scenario, evaluator):
            origins.setdefault(layout, word.value)
    for layout in scenario.search.earlier:
        origins.setdefault(layout, EARLIER)
    return tuple(Seed(layout=layout, origin=origin) for layout, origin in origins.items())


def _solved(scenario: Scenario, evaluator: Evaluator) -> Iterator[Layout]:
    try:
        fastest = replace(scenario, objective=RATE)
        yield best_with_queues(fastest, evaluator, solve_layout(fastest, evaluator).layout)
    except (InfeasibleError, SolverError):
        return


def _relaxed(scenario: Scenario, evaluator: Evaluator) -> Iterator[Layout]:
    try:
        layout = rounded(offer_of(scenario, evaluator, scenario.search.sizes), layout_settings(scenario))
    except (InfeasibleError, SolverError):
        return
    if layout is not None:
        yield layout
