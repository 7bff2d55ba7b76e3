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

from planner.assignment.aim import aim
from planner.assignment.layout_options import Offer
from planner.assignment.relaxation import Relaxation, relax
from planner.assignment.solver import dual_bound, solve
from planner.domain import AssignmentSettings, IslandClass, Layout, ObjectiveKind, ObjectiveSettings, Phase
from planner.errors import InfeasibleError, SolverError

MOST_OPTIONS = 24  # of one type and phase, in the first programme
FEWEST_OPTIONS = 6
SMALL_OPTIONS = 4  # the smallest that serve: they fill what is left over
LOSS = 0.04
FIRST_GAP = 0.005
ROUNDS = 8
RESTS = 1e-6
NOTHING = 1e-5  # a rate below this is the solver's tolerance
SLACK = 1e-7  # of a bound, likewise
SAME = 1e-9


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
class _Option:
    """One kind of island: type index, size, phase, rates; its waste, and its loss, the share of its GPUs' worth."""

    gpu: int
    size: int
    phase: Phase
    rates: tuple[float, ...]
    waste: float
    loss: float

    @property
    def name(self) -> str:
        return f"{self.gpu}_{self.size}_{self.phase}"


def best_layout(offer: Offer, objective: ObjectiveSettings, settings: AssignmentSettings) -> LayoutAnswer:
    """The best layout of `offer` for `objective`, to `settings.gap` where the time limit allows.

    Raises InfeasibleError where no layout serves the mix, or a target is out of reach; SolverError where the solver
    finds nothing in its time.
    """
    relaxed = relax(offer, objective, settings)
    if not relaxed.rate > 0:
        raise InfeasibleError(
            "layout: no islands of the offered GPUs serve every range in both phases.",
            hint="Prefill and decode need an island each: offer more GPUs, or types with more memory.",
        )
    options = list(_options(offer, relaxed))
    if objective.kind is ObjectiveKind.PER_DOLLAR:
        return _served(_per_dollar(offer, objective, settings, relaxed, options))
    return _served(_two_steps(offer, objective, settings, relaxed, options))


def _two_steps(
    offer: Offer,
    objective: ObjectiveSettings,
    settings: AssignmentSettings,
    relaxed: Relaxation,
    options: list[_Option],
) -> LayoutAnswer:
    start = replace(settings, gap=max(settings.gap, FIRST_GAP), time_limit_s=settings.time_limit_s / 3)
    rest = replace(settings, time_limit_s=settings.time_limit_s * 2 / 3)
    try:
        first = _solved(offer, objective, start, relaxed, _first(options))
    except InfeasibleError:  # the few options cannot, all of them may
        first = None
    if first is None or not first.rate_rps > NOTHING:
        return _solved(offer, objective, rest, relaxed, options)
    room = abs(relaxed.value - first.value)
    if room <= settings.gap * abs(relaxed.value):
        return replace(first, bound=relaxed.value, proven=True)
    needed = [o for o in options if o.waste < room]
    left = min((o.waste for o in options if o.waste >= room), default=float("inf"))
    try:
        second = _solved(offer, objective, rest, relaxed, needed, than=first.value)
    except SolverError:  # nothing better in the time given: the first layout stands, with what is known of it
        return replace(first, bound=relaxed.value, proven=False)
    bound = _bound(second.bound, relaxed.value, left, objective)
    return replace(second, bound=bound, proven=abs(bound - second.value) <= (settings.gap + RESTS) * abs(bound))


def _served(answer: LayoutAnswer) -> LayoutAnswer:
    """The answer, where it serves anything at all. Serving nothing is a proof only where the search was ended."""
    if answer.rate_rps > NOTHING:
        return answer
    if not answer.proven:
        raise SolverError(
            "layout: no layout that serves every range was found in the time given, nor that there is none.",
            hint="Give the solver more time.",
        )
    raise InfeasibleError(
        "layout: no whole islands of the offered GPUs serve every range in both phases.",
        hint="Prefill and decode need an island each: offer more GPUs, or raise the budget.",
    )


def _per_dollar(
    offer: Offer,
    objective: ObjectiveSettings,
    settings: AssignmentSettings,
    relaxed: Relaxation,
    options: list[_Option],
) -> LayoutAnswer:
    """Rounds on the options of least waste, and last on all of them."""
    fastest = ObjectiveSettings(kind=ObjectiveKind.RATE)
    unpriced = relax(offer, fastest, settings)
    best = _two_steps(offer, fastest, settings, unpriced, list(_options(offer, unpriced)))
    if not best.rate_rps > NOTHING or best.rate_rps < objective.target_rps * (1 - settings.gap):
        return replace(best, rate_rps=0.0)
    worth = best.rate_rps / _cost(best.layout, offer, objective)
    few, every = _first(options), False
    for _ in range(2 * ROUNDS):
        try:
            answer = _solved(offer, objective, settings, relaxed, options if every else few, reward=worth)
        except InfeasibleError:
            answer = replace(best, rate_rps=0.0)
        cost = _cost(answer.layout, offer, objective)
        if not cost or not answer.rate_rps > NOTHING or answer.rate_rps / cost <= worth * (1 + RESTS):
            if every:
                break
            every = True
            continue
        best, worth = answer, answer.rate_rps / cost
    proven = worth >= (1 - settings.gap) * relaxed.value
    return replace(best, value=worth, bound=relaxed.value, proven=proven)


def _cost(layout: Layout, offer: Offer, objective: ObjectiveSettings) -> float:
    charge = dict(zip(offer.gpus, offer.charges(objective), strict=True))
    return sum(charge[island.gpu] * island.size * count for island, count in layout.counts)


def _solved(
    offer: Offer,
    objective: ObjectiveSettings,
    settings: AssignmentSettings,
    relaxed: Relaxation,
    options: list[_Option],
    *,
    reward: float = 0.0,
    than: float | None = None,
) -> LayoutAnswer:
    """The best layout of these options; `than` is a value that is reached already."""
    rate = pulp.LpVariable("rate", lowBound=0)
    if than is not None and not objective.minimises:
        rate.lowBound = than * (1 - RESTS)
    model, islands = _programme(offer, objective, options, rate, reward)
    proven, solver = solve(model, settings)
    layout = Layout.of(
        IslandClass(gpu=offer.gpus[o.gpu], size=o.size)
        for o, variable in zip(options, islands, strict=True)
        for _ in range(round(variable.varValue or 0))
    )
    value = float(pulp.value(model.objective))
    known = dual_bound(model, value if proven else None)
    return LayoutAnswer(
        layout=layout,
        rate_rps=float(rate.varValue or 0.0),
        value=value,
        bound=relaxed.value if known is None else known,
        proven=proven,
        solver=solver,
    )


def _bound(programme: float, relaxed: float, left: float, objective: ObjectiveSettings) -> float:
    """What no layout can pass: of those of the options taken, and of those with an option that was left out."""
    if objective.minimises:
        return max(relaxed, min(programme, relaxed + left)) * (1 - SLACK)
    return min(relaxed, max(programme, relaxed - left)) * (1 + SLACK)


def _options(offer: Offer, relaxed: Relaxation) -> Iterator[_Option]:
    """Every option that serves something and does more than smaller islands of the same GPUs."""
    for t, rows in enumerate(offer.options):
        toll = relaxed.toll[offer.gpus[t]]
        for phase in Phase:
            by_size = {row.island.size: row.phase(phase).rates_rps for row in rows if row.phase(phase).serves}
            for size, rates in by_size.items():
                if not _outdone(size, rates, by_size):
                    worth = max(relaxed.worth[phase, j] * rate for j, rate in enumerate(rates))
                    waste = max(0.0, toll * size - worth)
                    loss = waste / (toll * size) if toll > 0 else 0.0
                    yield _Option(gpu=t, size=size, phase=phase, rates=rates, waste=waste, loss=loss)


def _outdone(size: int, rates: tuple[float, ...], by_size: dict[int, tuple[float, ...]]) -> bool:
    """Whether k islands of size / k do at least as much on every range."""
    for k in range(2, size + 1):
        part = by_size.get(size // k) if size % k == 0 else None
        if part and all(k * a >= b * (1 - SAME) for a, b in zip(part, rates, strict=True)):
            return True
    return False


def _first(options: list[_Option]) -> list[_Option]:
    """Per type and phase: those of least loss, and the smallest that serve anything."""
    kept: list[_Option] = []
    for key in sorted({(o.gpu, o.phase) for o in options}):
        mine = [o for o in options if (o.gpu, o.phase) == key]
        best = sorted(mine, key=lambda o: (o.loss, o.size))
        chosen = best[:FEWEST_OPTIONS] + [o for o in best[FEWEST_OPTIONS:MOST_OPTIONS] if o.loss <= LOSS]
        small = sorted(mine, key=lambda o: o.size)[:SMALL_OPTIONS]
        kept += [o for o in mine if o in chosen or o in small]
    return kept


def _programme(
    offer: Offer, objective: ObjectiveSettings, options: list[_Option], rate: pulp.LpVariable, reward: float
) -> tuple[pulp.LpProblem, list[pulp.LpVariable]]:
    sense = pulp.LpMinimize if objective.minimises else pulp.LpMaximize
    model = pulp.LpProblem("layout", sense)
    most = [offer.counts[o.gpu] // o.size for o in options]
    islands = [
        pulp.LpVariable(f"islands_{o.name}", lowBound=0, upBound=n, cat=pulp.LpInteger)
        for o, n in zip(options, most, strict=True)
    ]
    time = {
        (k, j): pulp.LpVariable(f"time_{o.name}_{j}", lowBound=0)
        for k, o in enumerate(options)
        for j, b in enumerate(o.rates)
        if b > 0
    }
    _serve(model, offer, options, time, rate)
    for k, o in enumerate(options):
        mine = [(time[k, j], 1) for j in range(len(o.rates)) if (k, j) in time]
        model += pulp.LpAffineExpression([*mine, (islands[k], -1)]) <= 0, f"capacity_{o.name}"
    for t, count in enumerate(offer.counts):
        used = [(islands[k], o.size) for k, o in enumerate(options) if o.gpu == t]
        if used:
            model += pulp.LpAffineExpression(used) <= count, f"offered_{t}"
    _aim(model, offer, objective, options, islands, rate, reward)
    return model, islands


def _serve(
    model: pulp.LpProblem,
    offer: Offer,
    options: list[_Option],
    time: dict[tuple[int, int], pulp.LpVariable],
    rate: pulp.LpVariable,
) -> None:
    """serve: each range gets its share of the rate in both phases."""
    for phase in Phase:
        mine = [k for k, o in enumerate(options) if o.phase is phase]
        for j, p in enumerate(offer.probabilities):
            served = [(time[k, j], options[k].rates[j] / p) for k in mine if (k, j) in time]
            model += pulp.LpAffineExpression([*served, (rate, -1)]) >= 0, f"serve_{phase}_{j}"


def _aim(
    model: pulp.LpProblem,
    offer: Offer,
    objective: ObjectiveSettings,
    options: list[_Option],
    islands: list[pulp.LpVariable],
    rate: pulp.LpVariable,
    reward: float,
) -> None:
    """The objective, and its own constraint."""
    charges = offer.charges(objective)
    cost = pulp.LpAffineExpression([(islands[k], o.size * charges[o.gpu]) for k, o in enumerate(options)])
    if objective.kind is ObjectiveKind.PER_DOLLAR:
        model.setObjective(rate - reward * cost)
        model += rate >= max(objective.target_rps, RESTS), "target"
    else:
        aim(model, objective, rate, cost)
