"""With the phases fixed: the rate that the network lets through, and which class hands its KV caches to which.

Where the network may limit, a linear programme finds the rate (its prices say what holds it back), and a second one, at
that rate, loads each phase as evenly as it can. The groups' traffic is then shared out to their classes, and the times
are those that the flows need. Notation: `network`.
"""

from collections import defaultdict
from dataclasses import dataclass

import pulp

from planner.assignment.network import Limit, Traffic, Wires
from planner.assignment.variables import Problem
from planner.domain import PHASES, AssignmentSettings, Flow, Phase
from planner.milp import solve

SLIVER = 2e-6
"""A flow that gives each of its islands less than this share of a range is left out."""

SLACK = 1e-6
"""Part of the rate that the even loading may give up, above the solver's own tolerance."""

PRICED = 0.01
"""A limit that explains less than this share of the rate is no bottleneck."""

FULL = 1e-4
"""A phase whose busiest class works all of its time but for so much limits the rate by itself."""

Link = tuple[int, int, int]
"""Prefill class, decode class, range."""

Times = dict[tuple[int, Phase, int], float]
"""Islands' worth of time of a class in a phase on a range."""

Amounts = dict[tuple[str, str, int], float]
"""Requests/s that a group hands to a group, of a range."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Connected:
    """Times (islands) and flows of the classes; `bottleneck` names the network's tightest part, empty: none."""

    optimal: bool
    times: Times
    flows: tuple[Flow, ...]
    bottleneck: str


def connect(
    problem: Problem,
    rate: pulp.LpVariable,
    wires: Wires,
    traffic: Traffic,
    prefill: list[int],
    settings: AssignmentSettings,
) -> Connected:
    """Fix the phases of a solved max_rate problem with network rows, and load it. The problem is used up."""
    for variable, count in zip(problem.prefill_islands, prefill, strict=True):
        variable.cat = pulp.LpContinuous  # a linear programme has prices
        variable.bounds(count, count)
    optimal = solve(problem.model, settings).proven
    best = rate.varValue or 0.0
    if best <= 0:
        return Connected(optimal=optimal, times={}, flows=(), bottleneck="")
    bottleneck = _bottleneck(problem, traffic.limits, prefill, best)
    even = _load_evenly(problem, rate, best, prefill, settings)
    times = {cell: variable.varValue or 0.0 for cell, variable in problem.time.items()}
    amounts = {
        (g, h, j): problem.probabilities[j] * (variable.varValue or 0.0)
        for (g, h, j), variable in traffic.handed.items()
    }
    times, flows = hand_out(problem, wires, prefill, times, best, amounts)
    return Connected(optimal=optimal and even, times=times, flows=flows, bottleneck=bottleneck)


def hand_out(
    problem: Problem, wires: Wires, prefill: list[int], times: Times, rate: float, amounts: Amounts | None = None
) -> tuple[Times, tuple[Flow, ...]]:
    """Class flows at `rate` requests/s of the whole mix, shared out as `times` serve, and the times they need.

    `amounts` may be left out where all classes are one group.
    """
    if rate <= 0:
        return {}, ()
    alone = wires.names[0]
    rates = amounts or {(alone, alone, j): rate * p for j, p in enumerate(problem.probabilities)}
    links = _within_limits(
        problem, wires, prefill, _scaled(problem, rate, _links(problem, wires, prefill, times, rates))
    )
    flows = tuple(
        Flow(prefill=problem.rows[i].island, decode=problem.rows[k].island, range_index=j, rate_rps=flow)
        for (i, k, j), flow in sorted(links.items())
    )
    return _times(problem, prefill, links), flows


def _islands(problem: Problem, prefill: list[int], phase: Phase) -> list[int]:
    if phase is Phase.PREFILL:
        return prefill
    return [n - k for n, k in zip(problem.counts, prefill, strict=True)]


def _bottleneck(problem: Problem, limits: tuple[Limit, ...], prefill: list[int], best: float) -> str:
    """The limit with the largest part in the rate: by duality the rate is the sum of price times amount over all."""
    parts: dict[str, float] = defaultdict(float)
    for limit in limits:
        parts[limit.owner] += abs(limit.row.pi or 0.0) * _amount(problem, prefill, limit) / best
    owner = max(parts, key=lambda name: parts[name], default="")
    return owner if parts.get(owner, 0.0) > PRICED else ""


def _amount(problem: Problem, prefill: list[int], limit: Limit) -> int:
    return 1 if limit.index is None else _islands(problem, prefill, limit.phase)[limit.index]


def _load_evenly(
    problem: Problem, rate: pulp.LpVariable, best: float, prefill: list[int], settings: AssignmentSettings
) -> bool:
    """At the rate found, the least busy share of the busiest class in each phase: the headroom is then seen whole."""
    # At the optimum itself no room is left for the solver to move in.
    rate.bounds(best * (1 - SLACK), best)
    levels = {phase: pulp.LpVariable(f"level_{phase}", lowBound=0) for phase in PHASES}
    for phase in PHASES:
        for index, count in enumerate(_islands(problem, prefill, phase)):
            problem.require(problem.busy(index, phase) - count * levels[phase] <= 0, f"level_{phase}_{index}")
    problem.model.setObjective(-1 * pulp.lpSum(levels.values()))
    return solve(problem.model, settings).proven


def _links(problem: Problem, wires: Wires, prefill: list[int], times: Times, amounts: Amounts) -> dict[Link, float]:
    """Requests/s from class to class: each class has its part in all that its group hands over, or takes."""
    links: dict[Link, float] = defaultdict(float)
    served = {
        (phase, j): _served(problem, times, phase, j) for phase in PHASES for j in range(len(wires.gb_per_request))
    }
    for (g, h, j), amount in amounts.items():
        total = sum(served[Phase.PREFILL, j])
        if amount > SLIVER * total:
            senders = _parts(served[Phase.PREFILL, j], wires.groups, g, amount)
            receivers = _parts(served[Phase.DECODE, j], wires.groups, h, amount)
            for (i, k), flow in staircase(senders, receivers).items():
                if _matters(problem, prefill, (i, k, j), flow, total):
                    links[i, k, j] += flow
    return links


def _served(problem: Problem, times: Times, phase: Phase, j: int) -> list[float]:
    """Requests/s of range j per class."""
    return [
        max(0.0, times.get((c, phase, j), 0.0)) * row.phase(phase).rates_rps[j] for c, row in enumerate(problem.rows)
    ]


def _parts(served: list[float], groups: tuple[str, ...], group: str, amount: float) -> dict[int, float]:
    """`amount` shared out to the classes of a group as they serve."""
    members = {c: rate for c, rate in enumerate(served) if groups[c] == group and rate > 0}
    total = sum(members.values())
    return {c: amount * rate / total for c, rate in members.items()}


def staircase(senders: dict[int, float], receivers: dict[int, float]) -> dict[tuple[int, int], float]:
    """Few flows between two lists of equal sums (the north-west corner rule): at most one fewer than there are ends."""
    flows: dict[tuple[int, int], float] = {}
    to_send, to_take = list(senders.items()), list(receivers.items())
    while to_send and to_take:
        (i, amount), (k, room) = to_send.pop(0), to_take.pop(0)
        flow = min(amount, room)
        flows[i, k] = flow
        # Where both end at once neither goes on, so no flow is 0.
        if amount > flow:
            to_send.insert(0, (i, amount - flow))
        elif room > flow:
            to_take.insert(0, (k, room - flow))
    return flows


def _matters(problem: Problem, prefill: list[int], link: Link, flow: float, total: float) -> bool:
    """Whether a flow is more than the solver's noise for the islands at both of its ends; `total`: the range's rate."""
    ends = ((link[0], Phase.PREFILL), (link[1], Phase.DECODE))
    counts = [_islands(problem, prefill, phase)[index] for index, phase in ends]
    return min(counts) > 0 and flow > SLIVER * total * max(counts)


def _scaled(problem: Problem, best: float, links: dict[Link, float]) -> dict[Link, float]:
    """Flows scaled so that every range reaches its part of the rate exactly."""
    sums: dict[int, float] = defaultdict(float)
    for (_, _, j), flow in links.items():
        sums[j] += flow
    # Slivers left out are made up for by the other flows of the range.
    return {link: flow * best * problem.probabilities[link[2]] / sums[link[2]] for link, flow in links.items()}


def _within_limits(problem: Problem, wires: Wires, prefill: list[int], links: dict[Link, float]) -> dict[Link, float]:
    """Flows scaled down, all alike, by what the solver's tolerance left above time, a NIC or an uplink."""
    excess = max([1.0, *_uses(problem, wires, prefill, links)])
    return {link: flow / excess for link, flow in links.items()}


def _uses(problem: Problem, wires: Wires, prefill: list[int], links: dict[Link, float]) -> list[float]:
    """Used part of every limit: time and NIC of each class and phase, uplinks both ways."""
    used: dict[tuple[object, ...], float] = defaultdict(float)
    for (i, k, j), flow in links.items():
        for c, phase in ((i, Phase.PREFILL), (k, Phase.DECODE)):
            share = _time(problem, c, phase, j, flow) / _islands(problem, prefill, phase)[c]
            used["time", c, phase] += share
            used["nic", c, phase] += share * wires.loads[c, phase, j]
        g, h = wires.groups[i], wires.groups[k]
        for group, way in ((g, "out"), (h, "into")):
            if g != h and group in wires.uplinks:
                used[way, group] += flow * wires.gb_per_request[j] / wires.uplinks[group]
    return list(used.values())


def _time(problem: Problem, index: int, phase: Phase, j: int, flow: float) -> float:
    return flow / problem.rows[index].phase(phase).rates_rps[j]


def _times(problem: Problem, prefill: list[int], links: dict[Link, float]) -> Times:
    """Times that serve the flows. The phase with room to spare gets all of it, where the other one limits the rate;
    where the network does, none gets more than it uses."""
    times: Times = defaultdict(float)
    for (i, k, j), flow in links.items():
        times[i, Phase.PREFILL, j] += _time(problem, i, Phase.PREFILL, j, flow)
        times[k, Phase.DECODE, j] += _time(problem, k, Phase.DECODE, j, flow)
    levels = {phase: _level(_islands(problem, prefill, phase), phase, times) for phase in PHASES}
    top = max(levels.values())
    if top < 1 - FULL:
        return dict(times)
    return {cell: time * top / levels[cell[1]] for cell, time in times.items()}


def _level(counts: list[int], phase: Phase, times: Times) -> float:
    """Busy share of a phase's busiest class."""
    busy: dict[int, float] = defaultdict(float)
    for (index, of_phase, _), time in times.items():
        if of_phase is phase:
            busy[index] += time / counts[index]
    return max(busy.values())
