"""Plans near those that they follow: a schedule's changes made smaller.

Plans for rates are made one by one, and two of them may do the same work with other servers, so that a change starts
all of them anew. From the first change of the best schedule to the last, the plan after it is made once more from the
one before it, for the highest rate that it meets until the next: as few GPUs touched as can be for (nearly) the same
rent. The switching programme then chooses among all plans, so that a schedule never gets dearer by it.
"""

from itertools import pairwise

from planner.domain.schedules import RateSeries, Tariff
from planner.replanning.schedules.levels import LevelBook
from planner.replanning.schedules.reservations import best_plans

WORTH = 2e-5  # of the schedule's cost: changes that cost less stay as they are
MOST_NEAR = 40  # plans, of about two CPU-seconds


def nest(book: LevelBook, series: RateSeries, tariff: Tariff, most_changes: int) -> None:
    """Plans near those before them, in the book beside all others."""
    levels = book.all()
    switching, _ = best_plans(levels, book.scenario, series, tariff, most_changes)
    edges = [*switching.changes, len(series.windows)]
    standing, least_usd = levels.levels[switching.plans[0]], WORTH * switching.usd
    for first, after in list(pairwise(edges))[:MOST_NEAR]:
        level, rate = levels.levels[switching.plans[first]], max(series.rates_rps[first:after])
        change_usd = book.change_usd(standing, level)
        near = book.add_near(standing, rate) if rate and change_usd > least_usd else None
        standing = level if near is None or book.change_usd(standing, near) >= change_usd else near
