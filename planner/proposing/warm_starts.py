"""Layouts that a search begins with: solved for, rounded from the relaxation, or taken from earlier runs."""

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

from planner.assignment import rounded
from planner.domain import (
    Goal,
    IslandClass,
    Layout,
    ObjectiveKind,
    ObjectiveSettings,
    Proposal,
    Scenario,
    WarmStart,
)
from planner.errors import InfeasibleError, SolverError
from planner.evaluation.buckets.judging import layout_of
from planner.evaluation.evaluator import Evaluator
from planner.proposing.buckets.pools import fastest_pools
from planner.proposing.certificate import RATE, is_exact, layout_settings, offer_of, solve_layout
from planner.proposing.frontier import GAP, SHARE_OF_TIME
from planner.proposing.queued_layouts import best_with_queues

RENTS = 12
"""Parts of the inventory's rent, each of which is solved for where rent is a goal, but the last, which all is."""

EARLIER, RUNNING = "earlier", "runs now"
OF_AUTO = (WarmStart.EXACT, WarmStart.RELAXATION)


def seeds_of(scenario: Scenario, evaluator: Evaluator) -> tuple[Proposal, ...]:
    """The layouts of search.warm_start, each once; its generator is the word, or `earlier`. Where the cost of a change
    is among the goals, what runs now is one of them: it costs nothing, where its islands have the degrees and phases
    that serve most.

    They are made for the highest rate, as the layout programme sees it: neither the network nor further goals. One that
    is not to be had is left out: the search can do without. The method `auto` begins with both words; where it had to
    search because nothing was solved in time, with the relaxation.
    """
    words = scenario.search.warm_start
    if scenario.search.method.row.may_solve:
        # what can be solved for and was not in time is not tried again
        words = (WarmStart.RELAXATION,) if is_exact(scenario) else OF_AUTO
    origins: dict[Layout, str] = {}
    for word in words:
        for layout in _solved(scenario, evaluator) if word is WarmStart.EXACT else _relaxed(scenario, evaluator):
            origins.setdefault(layout, word.value)
    if Goal.CHANGE_COST in scenario.objective.goals and (running := _running(scenario)) is not None:
        origins.setdefault(running, RUNNING)
    for layout in scenario.search.earlier:
        origins.setdefault(layout, EARLIER)
    return tuple(Proposal(parameters=(), layout=layout, generator=origin) for layout, origin in origins.items())


def seeds_of_pools(scenario: Scenario, evaluator: Evaluator, solved: Layout) -> tuple[Proposal, ...]:
    """The same of a search for pools: those that were solved for, where rent is a goal also the best for less rent, and
    those of earlier runs."""
    # what was solved for is known anyway: only a search that was asked to begin without it does
    words = WarmStart.EXACT in scenario.search.warm_start or scenario.search.method.row.may_solve
    of_rents = _of_rents(scenario, evaluator) if Goal.PRICE in scenario.objective.goals else ()
    origins = dict.fromkeys((solved, *of_rents), WarmStart.EXACT.value) if words else {}
    origins |= {layout: EARLIER for layout in scenario.search.earlier if layout not in origins}
    return tuple(Proposal(parameters=(), layout=layout, generator=origin) for layout, origin in origins.items())


def _of_rents(scenario: Scenario, evaluator: Evaluator) -> Iterator[Layout]:
    """The best pools for evenly spaced rents, the most first, as a frontier of the programme has them."""
    settings = layout_settings(scenario)
    settings = replace(settings, gap=max(GAP, settings.gap), work_limit=settings.work_limit * SHARE_OF_TIME)
    for place in range(RENTS - 1, 0, -1):
        rent = scenario.inventory.price_usd_per_hour * place / RENTS
        budget = ObjectiveSettings(kind=ObjectiveKind.BUDGET, budget_usd_per_hour=rent)
        with suppress(InfeasibleError, SolverError):
            priced, _, _ = fastest_pools(evaluator, budget, settings)
            yield layout_of(priced.pools)  # judged as any other: a search that resumes does not solve for it again


def _running(scenario: Scenario) -> Layout | None:
    """The layout that runs now; None where nothing does, or the inventory cannot form it."""
    islands = [IslandClass(gpu=row.gpu, size=row.size) for row in scenario.objective.current for _ in range(row.count)]
    offered = {item.gpu.name: item.count for item in scenario.inventory.items}
    used = Counter[str]()
    for island in islands:
        used[island.gpu] += island.size
    fits = all(count <= offered.get(gpu, 0) for gpu, count in used.items())
    # smaller islands are no layout of this search, and its encoding has no words for them
    large = all(island.size >= scenario.search.min_island_size for island in islands)
    return Layout.of(islands) if islands and fits and large else None


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
