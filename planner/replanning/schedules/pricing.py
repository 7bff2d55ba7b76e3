"""Plans that are not the cheapest by the hour, and make a schedule with reserved GPUs cheaper: columns by its duals.

Where GPUs are reserved, one that idles costs nothing in that stretch, and one beyond them all of its price: the plans
that go together are seldom the cheapest at their rates. So the best schedule's relaxation tells what a GPU of each type
is worth in each of its stretches, a plan is made at those prices, and taken where it costs less by them than the
relaxation's best: until none does, and the schedule gains no more.
"""

from itertools import pairwise

from planner.assignment import reservation_prices
from planner.domain.replanning.rates import RateSeries
from planner.domain.replanning.schedules import Tariff, TariffKind
from planner.replanning.schedules.levels import SAME, LevelBook, LevelSet
from planner.replanning.schedules.reservations import best_plans
from planner.replanning.schedules.tariffs import HOUR_S

Stretch = tuple[float, float]
"""Its highest rate (requests/s) and its hours."""

GAIN = 1e-3  # of what the relaxation's best plan costs: what a further plan has to cost less
MOST_PRICED = 40  # plans, of about a CPU-second
DIGITS = 3  # of a price's share of the type's: prices alike give the same plan


def price_further(book: LevelBook, series: RateSeries, tariff: Tariff, most_changes: int) -> None:
    """Plans by the duals of the best schedule, in the book beside all others; only where GPUs are reserved."""
    tried = set[tuple[float, tuple[float, ...]]]()
    while tariff.kind is TariffKind.RESERVED and len(tried) < MOST_PRICED:
        levels = book.all()
        switching, _ = best_plans(levels, book.scenario, series, tariff, most_changes)
        edges = [0, *switching.changes, len(series.windows)]
        stretches = dict[float, float]()
        for first, after in pairwise(edges):
            rate = max(series.rates_rps[first:after])
            stretches[rate] = stretches.get(rate, 0.0) + (after - first) * series.window_s / HOUR_S
        if not _priced(book, levels, [(rate, hours) for rate, hours in stretches.items() if rate], tariff, tried):
            return


def _priced(
    book: LevelBook,
    levels: LevelSet,
    stretches: list[Stretch],
    tariff: Tariff,
    tried: set[tuple[float, tuple[float, ...]]],
) -> bool:
    """Whether any plan at the stretches' prices is worth having."""
    items = book.scenario.inventory.items
    usual = [item.price_usd_per_gpu_hour for item in items]
    prices = reservation_prices(
        [[dict(level.gpus).get(item.gpu.name, 0) for item in items] for level in levels.levels],
        [[k for k, most in enumerate(levels.promises_rps) if most >= rate * (1 - SAME)] for rate, _ in stretches],
        [hours for _, hours in stretches],
        usual,
        tariff.reserved_discount,
    )
    found = False
    for (rate, _), gpu_usd, plan_usd in zip(stretches, prices.gpu_usd, prices.plan_usd, strict=True):
        shares = tuple(round(usd / whole, DIGITS) for usd, whole in zip(gpu_usd, usual, strict=True))
        if (rate, shares) in tried or len(tried) >= MOST_PRICED:
            continue
        tried.add((rate, shares))
        found |= book.add_priced(rate, gpu_usd, plan_usd * (1 - GAIN))
    return found
