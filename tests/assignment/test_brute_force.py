"""Every layout of small inventories, every choice of phases: nothing beats the programmes, and no bound is too low.

The enumeration is written from the definitions: islands of whole GPUs, one phase each, a linear programme inside.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product

import numpy as np
import pytest
from assignment_tables import ranges_of
from enumerated_problem import phase_rate

from planner.assignment import assign, layout_programme
from planner.assignment.layout_options import Offer
from planner.assignment.layout_programme import LayoutAnswer, best_layout
from planner.assignment.relaxation import relax
from planner.domain import (
    PHASES,
    AssignmentSettings,
    ClassPerformance,
    IslandClass,
    Layout,
    ObjectiveKind,
    ObjectiveSettings,
    ParallelConfig,
    PerformanceTable,
    Phase,
    PhasePerformance,
)
from planner.errors import InfeasibleError

Islands = tuple[tuple[int, int], ...]  # (type, size) of every island
SIZES = (1, 2, 3)
SEEDS = (1, 2, 3, 7, 8)  # each serves the mix, together some 2,000 choices
SETTINGS = AssignmentSettings(gap=1e-6)
SLACK = 1e-5  # of the solver's tolerances
SHAPES = ((3, 3), (6, 2), (4, 4), (2, 2, 2), (3, 2, 1), (5, 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One layout with its phases: GPUs of each type, charges and the rate of the mix."""

    prefill: Islands
    decode: Islands
    rate: float
    price: float
    watts: float

    @property
    def layout(self) -> tuple[tuple[int, int], ...]:
        """The islands without their phases."""
        return tuple(sorted(self.prefill + self.decode))


def _half(rates: Sequence[float], size: int) -> PhasePerformance:
    return PhasePerformance(
        parallel=ParallelConfig(tp=1, dp=size) if any(rates) else None,
        rates_rps=tuple(map(float, rates)),
        batch_sizes=tuple(int(rate > 0) for rate in rates),
        step_ms=tuple(1000 / rate if rate else 0.0 for rate in rates),
    )


@cache
def offer_of(seed: int) -> Offer:
    """Two or three types, two or three ranges; a quarter of the cells serve nothing, larger islands serve more."""
    rng = np.random.default_rng(seed)
    counts, ranges = SHAPES[seed % len(SHAPES)], int(rng.integers(2, 4))
    options = []
    for t in range(len(counts)):
        rows = []
        for size in SIZES[: counts[t]]:
            own, other = ((rng.uniform(1, 9, ranges) * size * (rng.random(ranges) >= 0.25)).tolist() for _ in PHASES)
            island = IslandClass(gpu=f"G{t}", size=size)
            rows.append(ClassPerformance(island=island, prefill=_half(own, size), decode=_half(other, size)))
        options.append(tuple(rows))
    return Offer(
        gpus=tuple(f"G{t}" for t in range(len(counts))),
        counts=counts,
        prices=tuple(rng.uniform(1, 5, len(counts)).tolist()),
        watts=tuple(rng.uniform(300, 900, len(counts)).tolist()),
        options=tuple(options),
        probabilities=tuple(rng.dirichlet(np.full(ranges, 2.0)).tolist()),
    )


def table_of_offer(offer: Offer) -> PerformanceTable:
    """All rows of the offer."""
    return PerformanceTable(
        ranges=ranges_of(offer.probabilities), classes=tuple(row for rows in offer.options for row in rows)
    )


def partitions(gpus: int, largest: int = SIZES[-1]) -> Iterator[tuple[int, ...]]:
    """Islands' sizes that take up `gpus` GPUs, descending."""
    if gpus == 0:
        yield ()
    for first in range(min(gpus, largest), 0, -1):
        yield from ((first, *rest) for rest in partitions(gpus - first, first))


def _sets(offer: Offer) -> list[Islands]:
    """Every multiset of islands, idle GPUs allowed."""
    per_type = [
        [tuple((t, size) for size in sizes) for used in range(count + 1) for sizes in partitions(used)]
        for t, count in enumerate(offer.counts)
    ]
    return [tuple(sorted(sum(combination, ()))) for combination in product(*per_type)]


def _rate(offer: Offer, islands: Islands, phase: Phase) -> float:
    rows = [list(offer.options[t][size - 1].phase(phase).rates_rps) for t, size in islands]
    return phase_rate(rows, list(offer.probabilities))


@cache
def choices(seed: int) -> tuple[Choice, ...]:
    """Every layout and choice of phases with a rate above 0."""
    offer = offer_of(seed)
    halves = {
        phase: [(islands, rate) for islands in _sets(offer) if (rate := _rate(offer, islands, phase)) > 0]
        for phase in PHASES
    }
    found = []
    for (own, prefill), (other, decode) in product(halves[Phase.PREFILL], halves[Phase.DECODE]):
        used = Counter[int]()
        for t, size in own + other:
            used[t] += size
        if all(used[t] <= count for t, count in enumerate(offer.counts)):
            price, watts = (
                sum(used[t] * charge for t, charge in enumerate(charges)) for charges in (offer.prices, offer.watts)
            )
            found.append(Choice(prefill=own, decode=other, rate=min(prefill, decode), price=price, watts=watts))
    return tuple(found)


def best_rate(seed: int) -> float:
    """The best rate of any layout; 0 where none serves the mix."""
    return max((one.rate for one in choices(seed)), default=0.0)


def solved(seed: int, objective: ObjectiveSettings) -> LayoutAnswer:
    """The programme's answer, checked to be what it says it is."""
    offer = offer_of(seed)
    found = best_layout(offer, objective, SETTINGS)
    islands = tuple(sorted((offer.gpus.index(i.gpu), i.size) for i, n in found.layout.counts for _ in range(n)))
    reached = max((one.rate for one in choices(seed) if one.layout == islands), default=0.0)
    assert reached >= found.rate_rps * (1 - SLACK)
    assert assign(table_of_offer(offer), found.layout, SETTINGS).throughput_rps == pytest.approx(reached, rel=SLACK)
    return found


each_offer = pytest.mark.parametrize("seed", SEEDS)


def test_the_examples_are_worth_enumerating() -> None:
    assert all(best_rate(seed) > 0 for seed in SEEDS)
    assert sum(len(choices(seed)) for seed in SEEDS) > 2000
    cells = [rate for seed in SEEDS for row in table_of_offer(offer_of(seed)).classes for rate in row.prefill.rates_rps]
    assert 0.0 in cells


@each_offer
def test_assigning_a_layout_finds_its_best_choice_of_phases(seed: int) -> None:
    by_layout: dict[tuple[tuple[int, int], ...], float] = {}
    for one in choices(seed):
        by_layout[one.layout] = max(one.rate, by_layout.get(one.layout, 0.0))
    table, offer = table_of_offer(offer_of(seed)), offer_of(seed)
    for islands in sorted(by_layout)[:: max(1, len(by_layout) // 12)]:
        layout = Layout.of(IslandClass(gpu=offer.gpus[t], size=size) for t, size in islands)
        assert assign(table, layout, SETTINGS).throughput_rps == pytest.approx(by_layout[islands], rel=SLACK)


@each_offer
def test_most_requests(seed: int) -> None:
    best, objective = best_rate(seed), ObjectiveSettings()
    found = solved(seed, objective)
    assert found.value == pytest.approx(best, rel=SLACK)
    assert found.bound >= best * (1 - SLACK)
    assert relax(offer_of(seed), objective, SETTINGS).value >= best * (1 - SLACK)


@each_offer
@pytest.mark.parametrize("part", [0.5, 0.8])
def test_most_requests_for_a_rent(seed: int, part: float) -> None:
    whole = max(one.price for one in choices(seed))
    objective = ObjectiveSettings(kind=ObjectiveKind.BUDGET, budget_usd_per_hour=part * whole)
    best = max((one.rate for one in choices(seed) if one.price <= part * whole * (1 + 1e-9)), default=0.0)
    assert relax(offer_of(seed), objective, SETTINGS).value >= best * (1 - SLACK)
    if best == 0:  # see the tests of what cannot be served
        return
    found = solved(seed, objective)
    assert found.value == pytest.approx(best, rel=SLACK)
    assert found.bound >= best * (1 - SLACK)


@each_offer
@pytest.mark.parametrize("part", [0.3, 0.7, 1.0])
@pytest.mark.parametrize("kind", [ObjectiveKind.TARGET, ObjectiveKind.WATTS])
def test_least_for_a_rate(seed: int, kind: ObjectiveKind, part: float) -> None:
    target = part * best_rate(seed) * (1 - 1e-4)
    objective = ObjectiveSettings(kind=kind, target_rps=target)
    enough = [one for one in choices(seed) if one.rate >= target]
    best = min(one.watts if kind is ObjectiveKind.WATTS else one.price for one in enough)
    assert relax(offer_of(seed), objective, SETTINGS).value <= best * (1 + SLACK)
    found = solved(seed, objective)
    assert found.rate_rps >= target * (1 - SLACK)
    assert found.value == pytest.approx(best, rel=SLACK)
    assert found.bound <= best * (1 + SLACK)


@each_offer
@pytest.mark.parametrize("kind", [ObjectiveKind.TARGET, ObjectiveKind.WATTS, ObjectiveKind.PER_DOLLAR])
def test_a_rate_beyond_every_layout_is_infeasible(seed: int, kind: ObjectiveKind) -> None:
    with pytest.raises(InfeasibleError):
        best_layout(offer_of(seed), ObjectiveSettings(kind=kind, target_rps=1.01 * best_rate(seed)), SETTINGS)


@each_offer
@pytest.mark.parametrize("part", [0.0, 0.7])
def test_most_requests_per_dollar(seed: int, part: float) -> None:
    target = part * best_rate(seed)
    objective = ObjectiveSettings(kind=ObjectiveKind.PER_DOLLAR, target_rps=target)
    best = max(one.rate / one.price for one in choices(seed) if one.rate >= target)
    assert relax(offer_of(seed), objective, SETTINGS).value >= best * (1 - SLACK)
    found = solved(seed, objective)
    assert found.rate_rps >= target * (1 - SLACK)
    assert found.value == pytest.approx(best, rel=SLACK)
    assert found.bound >= best * (1 - SLACK)


SEARCHED = {ObjectiveKind.PARETO, ObjectiveKind.PLACED, ObjectiveKind.REPLAYED, ObjectiveKind.ROBUST}
"""Never layouts that are solved for: `robust` is of pools."""
SOLVED = [kind for kind in ObjectiveKind if kind not in SEARCHED]
PRUNED = {"FEWEST_OPTIONS": 1, "MOST_OPTIONS": 1, "SMALL_OPTIONS": 1}


def _optimum(seed: int, objective: ObjectiveSettings) -> float:
    """The objective of the best enumerated layout."""
    match objective.kind:
        case ObjectiveKind.RATE:
            return best_rate(seed)
        case ObjectiveKind.BUDGET:
            return max((c.rate for c in choices(seed) if c.price <= objective.budget_usd_per_hour), default=0.0)
        case ObjectiveKind.TARGET:
            return min(c.price for c in choices(seed) if c.rate >= objective.target_rps)
        case ObjectiveKind.WATTS:
            return min(c.watts for c in choices(seed) if c.rate >= objective.target_rps)
        case ObjectiveKind.PER_DOLLAR:
            return max(c.rate / c.price for c in choices(seed) if c.rate >= objective.target_rps)


@each_offer
@pytest.mark.parametrize("kind", SOLVED)
def test_the_bound_holds_for_layouts_of_options_that_were_left_out(
    seed: int, kind: ObjectiveKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With next to no options in the programme its own optimum may be poor; the bound must not be."""
    for name, number in PRUNED.items():
        monkeypatch.setattr(layout_programme, name, number)
    objective = ObjectiveSettings(
        kind=kind,
        budget_usd_per_hour=0.8 * max(one.price for one in choices(seed)),
        target_rps=0.0 if kind is ObjectiveKind.PER_DOLLAR else 0.4 * best_rate(seed),
    )
    best = _optimum(seed, objective)
    try:
        found = best_layout(offer_of(seed), objective, SETTINGS)
    except InfeasibleError:  # the few options that were kept need not do
        return
    if objective.minimises:
        assert found.bound <= best * (1 + SLACK)
        assert found.value >= best * (1 - SLACK)
    else:
        assert found.bound >= best * (1 - SLACK)
        assert found.value <= best * (1 + SLACK)


def offer_of_one(gpus: int, decode: list[float]) -> Offer:
    """One type with islands of one GPU, and two ranges."""
    row = ClassPerformance(island=IslandClass(gpu="G0", size=1), prefill=_half([5.0, 4.0], 1), decode=_half(decode, 1))
    return Offer(
        gpus=("G0",), counts=(gpus,), prices=(1.0,), watts=(300.0,), options=((row,),), probabilities=(0.5, 0.5)
    )


@pytest.mark.parametrize("kind", SOLVED)
def test_a_range_that_nothing_decodes_is_infeasible(kind: ObjectiveKind) -> None:
    objective = ObjectiveSettings(kind=kind, budget_usd_per_hour=10.0, target_rps=0.5)
    with pytest.raises(InfeasibleError):
        best_layout(offer_of_one(4, [3.0, 0.0]), objective, SETTINGS)


@pytest.mark.parametrize("kind", [ObjectiveKind.RATE, ObjectiveKind.BUDGET, ObjectiveKind.PER_DOLLAR])
def test_one_gpu_cannot_do_both_phases_though_the_relaxation_would_let_it(kind: ObjectiveKind) -> None:
    lone = offer_of_one(1, [3.0, 2.0])
    objective = ObjectiveSettings(kind=kind, budget_usd_per_hour=10.0)
    assert relax(lone, objective, SETTINGS).value > 0
    with pytest.raises(InfeasibleError):
        best_layout(lone, objective, SETTINGS)


def test_a_rent_that_pays_for_no_serving_fleet_is_infeasible() -> None:
    seed = SEEDS[0]
    least = min(one.price for one in choices(seed))
    objective = ObjectiveSettings(kind=ObjectiveKind.BUDGET, budget_usd_per_hour=0.99 * least)
    with pytest.raises(InfeasibleError):
        best_layout(offer_of(seed), objective, SETTINGS)
