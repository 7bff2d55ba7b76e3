"""Door of the stage: who serves which range.

The default formulation: the highest rate at which the whole mix is served.

maximise lambda subject to
  serve_<phase>_<j>     sum_c b[c, phase, j] x[c, phase, j] >= lambda p[j]
  capacity_<phase>_<c>  sum_j x[c, phase, j] <= islands of the class in the phase
  queue_<phase>_<c>     sum_j u x <= share of the class times its islands, where one is given

Which islands of a given layout do what, where bounds on TTFT make queues count.

maximise lambda subject to the rows of `layout_options`; the stocks are the islands of each class, and a role takes one.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pulp

from planner.assignment.deviation import maximise_throughput_less_deviation
from planner.assignment.flows import Times, connect, hand_out
from planner.assignment.layout_options import IslandKind, IslandOption, island_rows
from planner.assignment.network import Wires, keep_network, wires_of
from planner.assignment.variables import Problem, Shares, open_problem
from planner.domain import (
    PHASES,
    Assignment,
    AssignmentSettings,
    Duty,
    Formulation,
    KvTraffic,
    Layout,
    NetworkSettings,
    PerformanceTable,
    Phase,
)
from planner.errors import InfeasibleError, InputError
from planner.milp import solve


def maximise_rate(problem: Problem) -> pulp.LpVariable:
    """Add objective and constraints; returns lambda (requests/s)."""
    rate = pulp.LpVariable("rate", lowBound=0)
    problem.model.setObjective(1 * rate)
    serve_the_mix(problem, rate)
    keep_capacity(problem)
    return rate


def serve_the_mix(problem: Problem, rate: pulp.LpVariable) -> None:
    """serve: each range gets its share of the rate in both phases (row divided by p[j], to scale well)."""
    for phase in PHASES:
        for j, p in enumerate(problem.probabilities):
            problem.require(problem.rate(phase, j) * (1 / p) - rate >= 0, f"serve_{phase}_{j}")


def keep_capacity(problem: Problem) -> None:
    """capacity: a class has no more time than islands; queue: nor works more of it than its queue admits."""
    for index in range(len(problem.rows)):
        for phase in PHASES:
            spent = problem.busy(index, phase) - problem.islands(index, phase)
            problem.require(spent <= 0, f"capacity_{phase}_{index}")
    for (index, phase), share in problem.shares.items():
        worked = problem.worked(index, phase) - share * problem.islands(index, phase)
        problem.require(worked <= 0, f"queue_{phase}_{index}")


NEGLIGIBLE = 1e-9  # share of an island's time that may be the solver's rounding


def assign(
    table: PerformanceTable,
    layout: Layout,
    settings: AssignmentSettings,
    network: NetworkSettings | None = None,
    kv: KvTraffic | None = None,
    shares: Shares | None = None,
) -> Assignment:
    """Assign phases and ranges to the islands of `layout`; with a `network`, within what it carries of `kv`.

    `shares`: the utilisation that queues admit, by class and phase; the deviation formulation does not heed it.

    Raises InfeasibleError where a range cannot be served in a phase by any island, SolverError where the solver fails,
    InputError where a network is given to the deviation formulation, which has no flows, or without its traffic.
    """
    problem = open_problem(table, layout, shares)
    _require_service(table, problem)
    if network is not None:
        wires = wires_of(problem, network, _traffic(settings, kv))
        # Rows that the islands' time implies would only slow the integer programme down.
        if wires.limit_anything:
            return _by_network(problem, settings, wires)
    if Formulation(settings.formulation) is Formulation.DEVIATION:
        return _by_deviation(problem, settings)
    maximise_rate(problem)
    solved = solve(problem.model, settings)
    optimal, solver = solved.proven, solved.solver
    prefill = [round(v.varValue or 0) for v in problem.prefill_islands]
    times: Times = {}
    for phase in PHASES:  # with the phases fixed the halves are independent linear programmes
        half = _half(problem, phase, prefill)
        optimal = solve(half.model, settings).proven and optimal
        times |= {cell: variable.varValue or 0.0 for cell, variable in half.time.items()}
    if network is None:
        return _assignment(problem, prefill, times, optimal, solver)
    times, flows = hand_out(problem, wires, prefill, times, _rate(problem, times))
    return replace(_assignment(problem, prefill, times, optimal, solver, negligible=0.0), flows=flows)


def _require_service(table: PerformanceTable, problem: Problem) -> None:
    for phase in PHASES:
        for j, span in enumerate(table.ranges):
            if not any((c, phase, j) in problem.time for c in range(len(problem.rows))):
                raise InfeasibleError(
                    f"layout: no island can {phase} prompts of {span.label} tokens.",
                    hint="Larger islands, or GPUs with more memory, are needed.",
                )


def _by_network(problem: Problem, settings: AssignmentSettings, wires: Wires) -> Assignment:
    """Max-rate within the network: the integer programme fixes the phases, then both are loaded together."""
    rate = maximise_rate(problem)
    traffic = keep_network(problem, rate, wires)
    solved = solve(problem.model, settings)
    optimal, solver = solved.proven, solved.solver
    prefill = [round(v.varValue or 0) for v in problem.prefill_islands]
    connection = connect(problem, rate, wires, traffic, prefill, settings)
    proven = optimal and connection.optimal
    answer = _assignment(problem, prefill, connection.times, proven, solver, negligible=0.0)  # flows hold no noise
    return replace(answer, flows=connection.flows, network_bottleneck=connection.bottleneck)


def _rate(problem: Problem, times: Times) -> float:
    """Rate of the whole mix that some times serve in both phases (requests/s)."""
    return min(
        sum(times.get((c, phase, j), 0.0) * row.phase(phase).rates_rps[j] / p for c, row in enumerate(problem.rows))
        for phase in PHASES
        for j, p in enumerate(problem.probabilities)
    )


def _traffic(settings: AssignmentSettings, kv: KvTraffic | None) -> KvTraffic:
    """What the network has to carry, where it can be asked at all."""
    if Formulation(settings.formulation) is not Formulation.MAX_RATE:
        raise InputError(
            f"assignment.formulation: must be max_rate where a network is given, got {settings.formulation}.",
            hint="Leave out `network`, or choose max_rate.",
        )
    if kv is None:
        raise InputError(
            "assign: kv must be given with network; it is missing.", hint="Give KvTraffic.of(model, inventory, ranges)."
        )
    return kv


def _half(problem: Problem, phase: Phase, prefill: list[int]) -> Problem:
    """One phase's programme where the islands that prefill are fixed: the highest rate of the mix."""
    counts = _islands(problem, phase, prefill)
    model = pulp.LpProblem(f"fill_{phase}", pulp.LpMaximize)
    rate = pulp.LpVariable("rate", lowBound=0)
    model.setObjective(1 * rate)
    half = replace(
        problem,
        model=model,
        time={
            cell: pulp.LpVariable(f"time_{cell[0]}_{cell[2]}", lowBound=0)
            for cell in problem.time
            # A class with no island in the phase would add columns that are 0.
            if cell[1] is phase and counts[cell[0]]
        },
    )
    for j, p in enumerate(problem.probabilities):
        model += half.rate(phase, j) * (1 / p) - rate >= 0, f"serve_{j}"
    for index, count in enumerate(counts):
        if count:
            model += half.busy(index, phase) <= count, f"capacity_{index}"
        if count and (index, phase) in half.shares:
            model += half.worked(index, phase) <= half.shares[index, phase] * count, f"queue_{index}"
    return half


def _islands(problem: Problem, phase: Phase, prefill: list[int]) -> list[int]:
    if phase is Phase.PREFILL:
        return prefill
    return [n - k for n, k in zip(problem.counts, prefill, strict=True)]


def _by_deviation(problem: Problem, settings: AssignmentSettings) -> Assignment:
    maximise_throughput_less_deviation(problem, settings)
    solved = solve(problem.model, settings)
    optimal, solver = solved.proven, solved.solver
    prefill = [round(v.varValue or 0) for v in problem.prefill_islands]
    times = {cell: variable.varValue or 0.0 for cell, variable in problem.time.items()}
    return _assignment(problem, prefill, times, optimal, solver)


def _assignment(
    problem: Problem,
    prefill: list[int],
    times: Times,
    optimal: bool,
    solver: str,
    negligible: float = NEGLIGIBLE,
) -> Assignment:
    """The answer that `times` give; shares of an island's time up to `negligible` are taken to be solver noise."""
    duties = tuple(
        _duty(problem, index, phase, count, times, negligible)
        for phase in PHASES
        for index, count in enumerate(_islands(problem, phase, prefill))
        if count
    )
    rates = {phase: served_rates(problem, duties, phase) for phase in PHASES}
    mix = {phase: min(r / p for r, p in zip(rates[phase], problem.probabilities, strict=True)) for phase in PHASES}
    return Assignment(
        duties=duties,
        throughput_rps=min(mix.values()),
        prefill_rps=mix[Phase.PREFILL],
        decode_rps=mix[Phase.DECODE],
        objective_rps=min(sum(r) for r in rates.values()),
        deviation_rps=_deviation(problem, rates),
        optimal=optimal,
        solver=solver,
    )


def _duty(problem: Problem, index: int, phase: Phase, count: int, times: Times, negligible: float) -> Duty:
    """A class's time, shared out evenly; solver noise removed and no island ever above 100 %."""
    raw = [max(0.0, times.get((index, phase, j), 0.0)) / count for j in range(len(problem.probabilities))]
    clean = [share if share > negligible else 0.0 for share in raw]
    excess = max(1.0, sum(clean))
    return Duty(
        island=problem.rows[index].island,
        phase=phase,
        count=count,
        time_shares=tuple(share / excess for share in clean),
    )


def served_rates(problem: Problem, duties: tuple[Duty, ...], phase: Phase) -> list[float]:
    """Requests/s per range that `duties` reach, recomputed from times and rates."""
    rates = {row.island: row.phase(phase).rates_rps for row in problem.rows}
    of_phase = [duty for duty in duties if duty.phase is phase]
    return [
        sum(duty.count * duty.time_shares[j] * rates[duty.island][j] for duty in of_phase)
        for j in range(len(problem.probabilities))
    ]


def _deviation(problem: Problem, rates: dict[Phase, list[float]]) -> float:
    """The paper's D_total of what is served (requests/s)."""
    within = sum(
        abs(r - p * sum(rates[phase]))
        for phase in PHASES
        for r, p in zip(rates[phase], problem.probabilities, strict=True)
    )
    return within + sum(abs(a - b) for a, b in zip(rates[Phase.PREFILL], rates[Phase.DECODE], strict=True))


GAP = 0.005  # at least: a plan's own gap may be wider


def choose_roles(
    kinds: Sequence[IslandKind],
    layout: Layout,
    probabilities: Sequence[float],
    settings: AssignmentSettings,
    *,
    better_than_rps: float = 0.0,
) -> Layout | None:
    """The islands of `layout` in the roles that serve the mix fastest; those left out keep none.

    None where even fractions of islands would serve no more than `better_than_rps`. Raises as `solve` does.
    """
    problem = _opened(kinds, layout, probabilities)
    # Of most layouts a search asks about this linear programme is the end.
    if not _relaxed_rps(problem, settings) > better_than_rps:
        return None
    _set_category(problem.islands, pulp.LpInteger)
    solve(problem.model, replace(settings, gap=max(settings.gap, GAP)))
    return _in_roles(layout, problem.options, [round(variable.varValue or 0) for variable in problem.islands])


def fractional_rps(
    kinds: Sequence[IslandKind], layout: Layout, probabilities: Sequence[float], settings: AssignmentSettings
) -> float:
    """What fractions of the islands of `layout` would serve in these roles (requests/s). Raises as `solve` does."""
    return _relaxed_rps(_opened(kinds, layout, probabilities), settings)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Roles:
    """The programme: its variables by option."""

    model: pulp.LpProblem
    rate: pulp.LpVariable
    options: list[IslandOption]
    islands: list[pulp.LpVariable]


def _opened(kinds: Sequence[IslandKind], layout: Layout, probabilities: Sequence[float]) -> _Roles:
    """Of `kinds` those of the classes of `layout`."""
    places = {island: k for k, (island, _) in enumerate(layout.counts)}
    options = [
        IslandOption(stock=places[kind.island.plain], use=1, kind=kind) for kind in kinds if kind.island.plain in places
    ]
    model, rate = pulp.LpProblem("roles", pulp.LpMaximize), pulp.LpVariable("rate", lowBound=0)
    model.setObjective(1 * rate)
    islands = island_rows(model, options, [count for _, count in layout.counts], probabilities, rate)
    return _Roles(model=model, rate=rate, options=options, islands=islands)


def _relaxed_rps(problem: _Roles, settings: AssignmentSettings) -> float:
    _set_category(problem.islands, pulp.LpContinuous)
    solve(problem.model, settings)
    return float(problem.rate.varValue or 0.0)


def _set_category(islands: Sequence[pulp.LpVariable], category: str) -> None:
    for variable in islands:
        variable.cat = category


def _in_roles(layout: Layout, options: Sequence[IslandOption], numbers: Sequence[int]) -> Layout:
    counts = Counter(dict(layout.counts))
    islands = [o.kind.island for o, n in zip(options, numbers, strict=True) for _ in range(n)]
    counts.subtract(island.plain for island in islands)
    return Layout.of([*islands, *counts.elements()])
