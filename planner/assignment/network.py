"""What the network asks of the inner problem (max_rate alone): rows that stand beside those of `max_rate`.

| symbol | meaning | unit |
|---|---|---|
| c, j, b, x, p | as in `variables`; p[j] is the probability of range j | |
| g, h | groups of classes: the types under one uplink; all types without an uplink are one group | |
| y[g, h, j] | requests of range j that g prefills and h decodes, divided by p[j] | requests/s |
| v[j] | KV cache of one request (`KvTraffic`) | GB |
| nic[c] | NICs of one island: size * nic_gb_s * nic_share | GB/s |

handed_<g>_<j>     sum_h y[g, h, j] = sum_(c in g) b[c, prefill, j] x[c, prefill, j] / p[j]
taken_<h>_<j>      sum_g y[g, h, j] = sum_(c in h) b[c, decode, j] x[c, decode, j] / p[j]
nic_<phase>_<c>    sum_j v[j] b[c, phase, j] x[c, phase, j] / nic[c] <= islands of the class in the phase
out_<g>, into_<g>  sum of p[j] v[j] y[g, h, j] over h (of y[h, g, j]) other than g <= uplink of the type

A NIC limits what a class sends or takes in all, an uplink what its group does; who exactly talks to whom within a pair
of groups limits nothing. The classes' flows are therefore no variables: `flows` reads them off the groups' y, and the
rows grow with the types and not with the square of the classes. NIC rows that the class's time implies are left out.
"""

from dataclasses import dataclass

import pulp

from planner.assignment.variables import PHASES, Problem
from planner.domain import KvTraffic, NetworkSettings, Phase

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
    """The network's part of a problem. `loads[c, phase, j]`: NIC-seconds of an island per second of its time."""

    groups: tuple[str, ...]
    handed: dict[tuple[str, str, int], pulp.LpVariable]
    loads: dict[tuple[int, Phase, int], float]
    uplinks: dict[str, float]
    gb_per_request: tuple[float, ...]
    limits: tuple[Limit, ...]


def keep_network(problem: Problem, network: NetworkSettings, kv: KvTraffic) -> Wires:
    """Add variables and rows of the network to a max_rate problem."""
    capped = dict(network.switch_gb_s)
    groups = tuple(row.island.gpu if row.island.gpu in capped else OPEN for row in problem.rows)
    names = sorted(set(groups))
    handed = {
        (g, h, j): pulp.LpVariable(f"handed_{a}_{b}_{j}", lowBound=0)
        for a, g in enumerate(names)
        for b, h in enumerate(names)
        for j in range(len(problem.probabilities))
    }
    hand_over_what_is_served(problem, groups, handed)
    loads = _loads(problem, network, kv)
    uplinks = {name: capped[name] for name in names if name != OPEN}
    return Wires(
        groups=groups,
        handed=handed,
        loads=loads,
        uplinks=uplinks,
        gb_per_request=kv.gb_per_request,
        limits=(*keep_nics(problem, loads), *keep_uplinks(problem, handed, uplinks, kv.gb_per_request)),
    )


def hand_over_what_is_served(
    problem: Problem, groups: tuple[str, ...], handed: dict[tuple[str, str, int], pulp.LpVariable]
) -> None:
    """handed, taken: each group hands over all that it prefills, and decodes all that it takes (rows / p[j])."""
    names = sorted(set(groups))
    for a, g in enumerate(names):
        mine = [c for c, group in enumerate(groups) if group == g]
        for j, p in enumerate(problem.probabilities):
            sent = pulp.lpSum(handed[g, h, j] for h in names) - _rate_of(problem, mine, Phase.PREFILL, j) * (1 / p)
            taken = pulp.lpSum(handed[h, g, j] for h in names) - _rate_of(problem, mine, Phase.DECODE, j) * (1 / p)
            problem.require(sent == 0, f"handed_{a}_{j}")
            problem.require(taken == 0, f"taken_{a}_{j}")


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
        / (problem.rows[c].island.size * nic[problem.rows[c].island.gpu] * network.nic_share)
        for c, phase, j in problem.time
    }


def keep_nics(problem: Problem, loads: dict[tuple[int, Phase, int], float]) -> list[Limit]:
    """nic: a class sends and takes no more than its NICs carry."""
    limits = []
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


def keep_uplinks(
    problem: Problem,
    handed: dict[tuple[str, str, int], pulp.LpVariable],
    uplinks: dict[str, float],
    gb_per_request: tuple[float, ...],
) -> list[Limit]:
    """out, into: what leaves or enters a type fits through its switch's uplink (rows / uplink, to scale well)."""
    limits = []
    for a, (gpu, uplink) in enumerate(uplinks.items()):
        for phase, word, owner in (
            (Phase.PREFILL, "out", f"uplink out of {gpu} islands"),
            (Phase.DECODE, "into", f"uplink into {gpu} islands"),
        ):
            crossing = pulp.LpAffineExpression(
                [
                    (variable, problem.probabilities[j] * gb_per_request[j] / uplink)
                    for (g, h, j), variable in handed.items()
                    if g != h and gpu == (g if phase is Phase.PREFILL else h)
                ]
            )
            if len(crossing):
                bound = crossing <= 1
                problem.require(bound, f"{word}_{a}")
                limits.append(Limit(owner=owner, phase=phase, index=None, row=bound))
    return limits
