"""The layout itself as integers: which islands to form and what they do, with a bound on what is possible.

| symbol | meaning | unit |
|---|---|---|
| o | an option: type, size, phase | |
| z[o] | islands formed of the option | 1, integer |
| x[o, j] | islands' worth of time on range j | islands |
| y[phase, j], w[t] | prices of the relaxation: of capacity on a range, of a GPU | |
| W[o] | waste of an option: w s - max_j y b, what one island of it costs of the relaxed optimum at least | |

serve_<phase>_<j>   sum_o b x >= lambda p[j]     capacity_<o>   sum_j x[o, j] <= z[o]
offered_<t>         sum_o s z <= N[t]            budget, target as in the relaxation

First the options of least waste make a good layout. Then every option stays in whose waste is smaller than what lies
between that layout and the relaxed optimum: no other can be part of a better layout. So
bound = max(bound of the programme solved, relaxed optimum - least waste left out) holds for all layouts.
An option is left out at once where smaller islands of the same GPUs do at least as much.
Requests per USD are found by Dinkelbach's method: maximise lambda - q cost, then q = lambda / cost, until it rests.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pulp

from planner.assignment.layout_options import IslandKind, IslandOption, Offer, island_rows
from planner.assignment.relaxation import Relaxation, aim, relax
from planner.domain import PHASES, AssignmentSettings, Layout, ObjectiveKind, ObjectiveSettings
from planner.errors import InfeasibleError, SolverError
from planner.milp import dual_bound, solve

# Options of the first programme decide how long it takes, not the optimum: the second one has all that could matter.
MOST_OPTIONS = 24  # of one type and phase
FEWEST_OPTIONS = 6  # whatever their loss
SMALL_OPTIONS = 4  # the smallest that serve: they fill what is left over
MOST_SMALL = 12  # sizes, where no second programme follows
LOSS = 0.04  # share of its GPUs' worth that an option may lose
FIRST_GAP = 0.005  # its layout only has to bound which options stay
ROUNDS = 8  # of Dinkelbach's method, which converges superlinearly; on few options, then on all
RESTS = 1e-6  # relative: of the size of HiGHS's tolerances
NOTHING = 1e-5  # a rate below this is the solver's tolerance
SLACK = 1e-7  # of a bound, likewise
SAME = 1e-9  # relative: rounding of rates


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutAnswer:
    """The best layout found. `value` and `bound` in the objective's unit; `proven` where it is within the gap asked."""

    layout: Layout
    rate_rps: float
    value: float
    bound: float
    proven: bool
    solver: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Choice:
    """What is to be chosen: of `options`, all or those that matter, the best for the objective; `relaxed`: what that
    cannot pass."""

    offer: Offer
    objective: ObjectiveSettings
    settings: AssignmentSettings
    relaxed: Relaxation
    options: list[IslandOption]

    @classmethod
    def of(cls, offer: Offer, objective: ObjectiveSettings, settings: AssignmentSettings) -> "_Choice":
        """All options that are not outdone by smaller islands."""
        relaxed = relax(offer, objective, settings)
        options = list(_options(offer, relaxed))
        return cls(offer=offer, objective=objective, settings=settings, relaxed=relaxed, options=options)


def best_layout(
    offer: Offer, objective: ObjectiveSettings, settings: AssignmentSettings, *, few: bool = False
) -> LayoutAnswer:
    """The best layout of `offer` for `objective`, to `settings.gap` where the work limit allows.

    `few`: of the options of least waste alone, a good layout without proof.

    Raises InfeasibleError where no layout serves the mix, or a target is out of reach; SolverError where the solver
    finds nothing in its time.
    """
    choice = _Choice.of(offer, objective, settings)
    if not choice.relaxed.rate > 0:
        raise InfeasibleError(
            "layout: no islands of the offered GPUs serve every range in both phases.",
            hint="Prefill and decode need an island each: offer more GPUs, or types with more memory.",
        )
    if not objective.kind.row.per_charge:
        return _served(_two_steps(choice, few=few))
    fastest = _Choice.of(offer, ObjectiveSettings(kind=ObjectiveKind.RATE), settings)
    return _served(_per_dollar(choice, best=_two_steps(fastest, few=few), few=few))


def _two_steps(choice: _Choice, *, few: bool) -> LayoutAnswer:
    settings, relaxed, options = choice.settings, choice.relaxed, choice.options
    start = replace(settings, gap=max(settings.gap, FIRST_GAP), work_limit=settings.work_limit / 3)
    remaining = replace(settings, work_limit=settings.work_limit * 2 / 3)
    try:
        beginning = _most_useful(options) if few else _first(options)
        first = _solved(replace(choice, settings=start, options=beginning))
    except InfeasibleError:  # the few options cannot, all of them may
        first = None
    if first is None or not first.rate_rps > NOTHING:
        return _solved(replace(choice, settings=remaining))
    # What a better layout may gain at most, and so may waste of the relaxed optimum.
    room = abs(relaxed.value - first.value)
    if few or room <= settings.gap * abs(relaxed.value):
        return replace(first, bound=relaxed.value, proven=not few)
    needed = [o for o in options if o.waste < room]
    least_waste = min((o.waste for o in options if o.waste >= room), default=float("inf"))
    try:
        second = _solved(replace(choice, settings=remaining, options=needed), than=first.value)
    except SolverError:  # nothing better within the work limit: the first layout stands, with what is known of it
        return replace(first, bound=relaxed.value, proven=False)
    bound = _bound(second.bound, relaxed.value, least_waste, choice.objective)
    return replace(second, bound=bound, proven=abs(bound - second.value) <= (settings.gap + RESTS) * abs(bound))


def _served(answer: LayoutAnswer) -> LayoutAnswer:
    """The answer, where it serves anything at all. Serving nothing is a proof only where the search was ended."""
    if answer.rate_rps > NOTHING:
        return answer
    if not answer.proven:
        raise SolverError(
            "layout: no layout that serves every range was found within the work limit, nor that there is none.",
            hint="Raise search.work_limit.",
        )
    raise InfeasibleError(
        "layout: no whole islands of the offered GPUs serve every range in both phases.",
        hint="Prefill and decode need an island each: offer more GPUs, or raise the budget.",
    )


def _per_dollar(choice: _Choice, *, best: LayoutAnswer, few: bool) -> LayoutAnswer:
    """Rounds from the fastest layout, on the options of least waste, and last, unless `few`, on all of them."""
    objective, settings, relaxed, options = choice.objective, choice.settings, choice.relaxed, choice.options
    # The fastest layout misses the target, so every layout does.
    if not best.rate_rps > NOTHING or best.rate_rps < objective.target_rps * (1 - settings.gap):
        return replace(best, rate_rps=0.0)
    worth = best.rate_rps / _cost(best.layout, choice.offer, objective)
    few_options, every = _most_useful(options) if few else _first(options), False
    for _ in range(2 * ROUNDS):
        try:
            answer = _solved(replace(choice, options=options if every else few_options), reward=worth)
        except InfeasibleError:
            answer = replace(best, rate_rps=0.0)
        cost = _cost(answer.layout, choice.offer, objective)
        if not cost or not answer.rate_rps > NOTHING or answer.rate_rps / cost <= worth * (1 + RESTS):
            # The few rest: all options may still go on from there.
            if every or few:
                break
            every = True
            continue
        best, worth = answer, answer.rate_rps / cost
    proven = worth >= (1 - settings.gap) * relaxed.value
    return replace(best, value=worth, bound=relaxed.value, proven=proven)


def _cost(layout: Layout, offer: Offer, objective: ObjectiveSettings) -> float:
    charge = dict(zip(offer.gpus, offer.charges(objective), strict=True))
    return sum(charge[island.gpu] * island.size * count for island, count in layout.counts)


def _solved(choice: _Choice, *, reward: float = 0.0, than: float | None = None) -> LayoutAnswer:
    """The best layout of the options; `than` is a value that is reached already."""
    objective, options = choice.objective, choice.options
    rate = pulp.LpVariable("rate", lowBound=0)
    if than is not None and not objective.minimises:
        # Worse layouts need no search; the margin keeps the one that is known feasible.
        rate.lowBound = than * (1 - RESTS)
    model, islands = _programme(choice.offer, objective, options, rate, reward)
    solved = solve(model, choice.settings)
    layout = Layout.of(
        o.kind.island
        for o, variable in zip(options, islands, strict=True)
        for _ in range(round(variable.varValue or 0))
    )
    value = float(pulp.value(model.objective))
    dual = dual_bound(model, value if solved.proven else None)
    return LayoutAnswer(
        layout=layout,
        rate_rps=float(rate.varValue or 0.0),
        value=value,
        bound=choice.relaxed.value if dual is None else dual,
        proven=solved.proven,
        solver=solved.solver,
    )


def _bound(programme: float, relaxed: float, least_waste: float, objective: ObjectiveSettings) -> float:
    """What no layout can pass: of those of the options taken, and of those with an option that was left out."""
    if objective.minimises:
        return max(relaxed, min(programme, relaxed + least_waste)) * (1 - SLACK)
    return min(relaxed, max(programme, relaxed - least_waste)) * (1 + SLACK)


def _options(offer: Offer, relaxed: Relaxation) -> Iterator[IslandOption]:
    """Every option that serves something and does more than smaller islands of the same GPUs."""
    for t, kinds in enumerate(offer.kinds()):
        for phase in PHASES:
            of_phase = [kind for kind in kinds if kind.phase is phase]
            by_size: dict[int, list[tuple[float, ...]]] = {}
            for kind in of_phase:
                by_size.setdefault(kind.island.size, []).append(kind.abilities)
            for kind in of_phase:
                if not _outdone(kind.island.size, kind.abilities, by_size):
                    yield _option(t, kind, relaxed, toll=relaxed.toll[offer.gpus[t]])


def _option(t: int, kind: IslandKind, relaxed: Relaxation, *, toll: float) -> IslandOption:
    size = kind.island.size
    worth = max(relaxed.worth[kind.phase, j] * rate for j, rate in enumerate(kind.shared_rps))
    waste = max(0.0, toll * size - worth)
    return IslandOption(
        stock=t,
        use=size,
        kind=kind,
        waste=waste,
        loss=waste / (toll * size) if toll > 0 else 0.0,
    )


def _outdone(size: int, abilities: tuple[float, ...], by_size: dict[int, list[tuple[float, ...]]]) -> bool:
    """Whether k islands of size / k do at least as much on every range."""
    return any(
        all(k * a >= b * (1 - SAME) for a, b in zip(part, abilities, strict=True))
        # As many as fill the same GPUs: fewer would leave some idle, which may serve something else.
        for k in range(2, size + 1)
        if size % k == 0
        for part in by_size.get(size // k, ())
    )


def _first(options: list[IslandOption]) -> list[IslandOption]:
    """Per type and phase: those of least loss, and the smallest that serve anything."""
    selected: list[IslandOption] = []
    for key in sorted({(o.stock, o.kind.phase) for o in options}):
        of_key = [o for o in options if (o.stock, o.kind.phase) == key]
        best = sorted(of_key, key=lambda o: (o.loss, o.use))
        chosen = best[:FEWEST_OPTIONS] + [o for o in best[FEWEST_OPTIONS:MOST_OPTIONS] if o.loss <= LOSS]
        small = sorted(of_key, key=lambda o: o.use)[:SMALL_OPTIONS]
        selected += [o for o in of_key if o in chosen or o in small]
    return selected


def _most_useful(options: list[IslandOption]) -> list[IslandOption]:
    """Per type and phase, where there is no second programme: those of least loss, and of each size that serves every
    range the one of least loss, the smallest sizes first."""
    selected: list[IslandOption] = []
    for key in sorted({(o.stock, o.kind.phase) for o in options}):
        of_key = sorted((o for o in options if (o.stock, o.kind.phase) == key), key=lambda o: (o.loss, o.use))
        serving = {o.use: o for o in reversed(of_key) if min(o.kind.rates_rps) > 0}
        small = [serving[use] for use in sorted(serving)[:MOST_SMALL]]
        selected += [o for o in of_key if o in of_key[:MOST_OPTIONS] or o in small]
    return selected


def _programme(
    offer: Offer, objective: ObjectiveSettings, options: list[IslandOption], rate: pulp.LpVariable, reward: float
) -> tuple[pulp.LpProblem, list[pulp.LpVariable]]:
    sense = pulp.LpMinimize if objective.minimises else pulp.LpMaximize
    model = pulp.LpProblem("layout", sense)
    islands = island_rows(model, options, offer.counts, offer.probabilities, rate)
    _aim(model, offer, objective, options, islands, rate, reward)
    return model, islands


def _aim(
    model: pulp.LpProblem,
    offer: Offer,
    objective: ObjectiveSettings,
    options: list[IslandOption],
    islands: list[pulp.LpVariable],
    rate: pulp.LpVariable,
    reward: float,
) -> None:
    """The objective, and its own constraint."""
    charges = offer.charges(objective)
    cost = pulp.LpAffineExpression([(islands[k], o.use * charges[o.stock]) for k, o in enumerate(options)])
    if objective.kind.row.per_charge:
        model.setObjective(rate - reward * cost)
        model += rate >= max(objective.target_rps, RESTS), "target"
    else:
        aim(model, objective, rate, cost)
