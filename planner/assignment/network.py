"""What the network asks of the inner problem (max_rate alone): rows that stand beside those of `max_rate`.

| symbol | meaning | unit |
|---|---|---|
| c, j, b, x, p | as in `variables`; p[j] is the probability of range j | |
| g, h | groups of classes: the types under one uplink; all types without an uplink are one group | |
| y[g, h, j] | requests of range j that g prefills and h decodes, divided by p[j] | requests/s |
| v[j] | KV cache of one request (`KvTraffic`) | GB |
| nic[c] | NICs of one island: size * nic_gb_s * nic_share (times `Reach.path` where it is placed) | GB/s |

carried_<j>        sum_(g, h) y[g, h, j] >= lambda
handed_<g>_<j>     sum_h y[g, h, j] <= sum_(c in g) b[c, prefill, j] x[c, prefill, j] / p[j]
taken_<h>_<j>      sum_g y[g, h, j] <= sum_(c in h) b[c, decode, j] x[c, decode, j] / p[j]
nic_<phase>_<c>    sum_j v[j] b[c, phase, j] x[c, phase, j] / nic[c] <= islands of the class in the phase
out_<g>, into_<g>  sum of p[j] v[j] y[g, h, j] over h (of y[h, g, j]) other than g <= uplink of the type

A NIC limits what a class sends or takes in all, an uplink what its group does; who exactly talks to whom within a pair
of groups limits nothing. The classes' flows are therefore no variables: `flows` reads them off the groups' y, and the
rows grow with the types and not with the square of the classes. They hold as equations once time that serves nothing
is given back, which no limit minds. NIC rows that the class's time implies are left out, and y where all is one group.
"""

from dataclasses import dataclass

import pulp

from planner.assignment.variables import Problem
from planner.domain import PHASES, ClassPerformance, KvTraffic, NetworkSettings, Phase

OPEN = ""
"""The group of all types without an uplink."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """A row that bounds traffic. `owner` says of what, in words; `index` is the class of a NIC row, else None."""

    owner: str
    phase: Phase
    index: int | None
    row: pulp.LpConstraint


@dataclass(frozen=True, slots=True, kw_only=True)
class Wires:
    """The network as a problem's classes see it: the group of each, uplinks of the groups (GB/s).

    `loads[c, phase, j]`: seconds of an island's NICs per second of its time on a range (0 where nothing is handed).
    """

    groups: tuple[str, ...]
    loads: dict[tuple[int, Phase, int], float]
    uplinks: dict[str, float]
    gb_per_request: tuple[float, ...]

    @property
    def names(self) -> list[str]:
        """Each group once."""
        return sorted(set(self.groups))

    @property
    def limit_anything(self) -> bool:
        """Whether any row of the network is not implied by the islands' time."""
        return len(self.names) > 1 or max(self.loads.values()) > 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """The network's part of a programme: y by (g, h, j), empty where all is one group, and the limits."""

    handed: dict[tuple[str, str, int], pulp.LpVariable]
    limits: tuple[Limit, ...]


def wires_of(problem: Problem, network: NetworkSettings, kv: KvTraffic) -> Wires:
    """What the network means to the classes of a problem."""
    capped = dict(network.switch_gb_s)
    # Types without an uplink reach each other freely: as one group they need fewer rows.
    groups = tuple(row.island.gpu if row.island.gpu in capped else OPEN for row in problem.rows)
    return Wires(
        groups=groups,
        loads=_loads(problem, network, kv),
        uplinks={name: capped[name] for name in sorted(set(groups)) if name != OPEN},
        gb_per_request=kv.gb_per_request,
    )


def keep_network(problem: Problem, rate: pulp.LpVariable, wires: Wires) -> Traffic:
    """Add variables and rows of the network to a max_rate problem."""
    names = wires.names
    handed = {
        (g, h, j): pulp.LpVariable(f"handed_{a}_{b}_{j}", lowBound=0)
        for a, g in enumerate(names)
        for b, h in enumerate(names)
        for j in range(len(problem.probabilities))
        if len(names) > 1
    }
    if handed:
        hand_over_what_is_served(problem, rate, wires, handed)
    return Traffic(handed=handed, limits=(*keep_nics(problem, wires), *keep_uplinks(problem, wires, handed)))


def hand_over_what_is_served(
    problem: Problem, rate: pulp.LpVariable, wires: Wires, handed: dict[tuple[str, str, int], pulp.LpVariable]
) -> None:
    """carried, handed, taken: groups hand over what they prefill, and decode what they take (rows / p[j])."""
    names = wires.names
    for j, p in enumerate(problem.probabilities):
        problem.require(pulp.lpSum(handed[g, h, j] for g in names for h in names) - rate >= 0, f"carried_{j}")
        for a, g in enumerate(names):
            of_g = [c for c, group in enumerate(wires.groups) if group == g]
            sent = pulp.lpSum(handed[g, h, j] for h in names) - _rate_of(problem, of_g, Phase.PREFILL, j) * (1 / p)
            received = pulp.lpSum(handed[h, g, j] for h in names) - _rate_of(problem, of_g, Phase.DECODE, j) * (1 / p)
            problem.require(sent <= 0, f"handed_{a}_{j}")
            problem.require(received <= 0, f"taken_{a}_{j}")


def _rate_of(problem: Problem, classes: list[int], phase: Phase, j: int) -> pulp.LpAffineExpression:
    """Requests/s of range j that some classes serve."""
    return pulp.LpAffineExpression(
        [
            (problem.time[c, phase, j], problem.rows[c].phase(phase).rates_rps[j])
            for c in classes
            if (c, phase, j) in problem.time
        ]
    )


def _loads(problem: Problem, network: NetworkSettings, kv: KvTraffic) -> dict[tuple[int, Phase, int], float]:
    nic = dict(kv.nic_gb_s)
    return {
        (c, phase, j): kv.gb_per_request[j]
        * problem.rows[c].phase(phase).rates_rps[j]
        / (problem.rows[c].island.size * nic[problem.rows[c].island.gpu] * network.nic_share * _path(problem.rows[c]))
        for c, phase, j in problem.time
    }


def _path(row: ClassPerformance) -> float:
    """What the way to its partners leaves of the NICs of a placed island."""
    return row.island.reach[0].path if row.island.reach else 1.0


def keep_nics(problem: Problem, wires: Wires) -> list[Limit]:
    """nic: a class sends and takes no more than its NICs carry."""
    loads, limits = wires.loads, []
    for index, row in enumerate(problem.rows):
        for phase in PHASES:
            cells = [cell for cell in loads if cell[:2] == (index, phase)]
            if max((loads[cell] for cell in cells), default=0.0) > 1:
                load = pulp.LpAffineExpression([(problem.time[cell], loads[cell]) for cell in cells])
                bound = load - problem.islands(index, phase) <= 0
                problem.require(bound, f"nic_{phase}_{index}")
                owner = f"NIC of {row.island.gpu} {phase} islands"
                limits.append(Limit(owner=owner, phase=phase, index=index, row=bound))
    return limits


def keep_uplinks(problem: Problem, wires: Wires, handed: dict[tuple[str, str, int], pulp.LpVariable]) -> list[Limit]:
    """out, into: what leaves or enters a type fits through its switch's uplink (rows / uplink, to scale well)."""
    limits = []
    for a, (gpu, uplink) in enumerate(wires.uplinks.items()):
        for phase, word, owner in (
            (Phase.PREFILL, "out", f"uplink out of {gpu} islands"),
            (Phase.DECODE, "into", f"uplink into {gpu} islands"),
        ):
            crossing = pulp.LpAffineExpression(
                [
                    (variable, problem.probabilities[j] * wires.gb_per_request[j] / uplink)
                    for (g, h, j), variable in handed.items()
                    if g != h and gpu == (g if phase is Phase.PREFILL else h)
                ]
            )
            if len(crossing):
                bound = crossing <= 1
                problem.require(bound, f"{word}_{a}")
                limits.append(Limit(owner=owner, phase=phase, index=None, row=bound))
    return limits
