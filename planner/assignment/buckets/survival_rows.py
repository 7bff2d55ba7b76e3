"""Rows of a programme of buckets that a share of its rate survives the loss of any f nodes.

| symbol | meaning | unit |
|---|---|---|
| z[o, B], nodes[o] | servers of a pool, among how many nodes they can be spread | 1 |
| A[o, B] | rate of one server where no more than the share of lambda is served | requests/s |
| s[o, B] | most servers of a pool that share a node | 1 |
| w[tau], y[o, tau] | whether the slowest of the fastest f servers does tau, z where it does | 0, 1, 1 |

left_<phase>_<B>    left = sum_o A z - share lambda P(B)
spread_<o>          z <= nodes[o] s
f = 1               left >= s A of every pool
f > 1               left >= f / nodes[o] z A of every pool
fastest_<phase>_<B> left >= what the fastest f servers do, each on a node of its own: the least over tau of f tau and
                    what servers do beyond tau, sum_tau (f tau w + sum_o max(A - tau, 0) y)
jointly             left >= f s A of every pool that has its nodes alone, and of all together that share nodes
"""

from collections.abc import Mapping, Sequence

import pulp

from planner.assignment.buckets.offer import BucketOffer, BucketOption, Place

Key = tuple[Place, BucketOption]
Servers = Mapping[Key, pulp.LpVariable]


def survival_rows(
    model: pulp.LpProblem,
    offer: BucketOffer,
    places: Sequence[Place],
    servers: Servers,
    rate: pulp.LpVariable,
    prefix: str = "",
) -> None:
    """Whatever nodes are lost, the share of the rate remains in each of `places`; `prefix`: of names."""
    several = offer.lost_nodes > 1 and not offer.jointly
    per_node = {} if several else {key: _per_node(model, key[1], count) for key, count in servers.items()}
    for place in places:
        serving = {key: count for key, count in servers.items() if place in offer.served_by(key[0])}
        served = pulp.LpAffineExpression([(count, key[1].after_rps) for key, count in serving.items()])
        name = f"{prefix}{place[0].value}_{place[1]}"
        after_loss = pulp.LpVariable(f"left_{name}")  # one row, that the others may be short
        model += served - offer.survive * offer.probabilities[place] * rate - after_loss == 0, f"left_{name}"
        if offer.jointly:
            _survive_jointly(model, offer, after_loss, {key: per_node[key] for key in serving})
        elif several:
            _survive_several(model, offer, after_loss, name, serving)
        else:
            for key in serving:
                model += after_loss - key[1].after_rps * per_node[key] >= 0


def _per_node(model: pulp.LpProblem, option: BucketOption, count: pulp.LpVariable) -> pulp.LpVariable:
    """s of a pool."""
    name = count.name.removeprefix("servers_")
    per_node = pulp.LpVariable(f"per_node_{name}", 0, -(-int(count.upBound) // option.nodes), pulp.LpInteger)
    model += count - option.nodes * per_node <= 0, f"spread_{name}"
    return per_node


def _survive_several(
    model: pulp.LpProblem, offer: BucketOffer, after_loss: pulp.LpVariable, name: str, servers: Servers
) -> None:
    """Without the fastest f servers, and without f nodes' part of a pool: w chooses tau, y shares z out among taus."""
    for key, count in servers.items():
        model += after_loss - min(1.0, offer.lost_nodes / key[1].nodes) * key[1].after_rps * count >= 0
    # 0 is for fewer than f servers: all of them may be lost.
    levels = [0.0, *sorted({key[1].after_rps for key in servers})]
    chosen = [pulp.LpVariable(f"level_{name}_{n}", cat=pulp.LpBinary) for n in range(len(levels))]
    model += pulp.lpSum(chosen) == 1, f"level_{name}"
    lost = [(choice, offer.lost_nodes * level) for choice, level in zip(chosen, levels, strict=True)]
    for k, (key, count) in enumerate(servers.items()):
        below = [n for n, level in enumerate(levels) if level < key[1].after_rps]
        parts = [pulp.LpVariable(f"part_{name}_{k}_{n}", lowBound=0) for n in below]
        # A level at or above a server's rate leaves it no excess, and its part may be 0.
        model += pulp.lpSum(parts) - count + count.upBound * pulp.lpSum(chosen[len(below) :]) >= 0
        for n, part in zip(below, parts, strict=True):
            model += part - count.upBound * chosen[n] <= 0
            lost.append((part, key[1].after_rps - levels[n]))
    model += after_loss - pulp.LpAffineExpression(lost) >= 0, f"fastest_{name}"


def _survive_jointly(model: pulp.LpProblem, offer: BucketOffer, after_loss: pulp.LpVariable, per_node: Servers) -> None:
    """Every lost node takes as much as any may have: of a pool, and of all pools that share nodes."""
    shared: dict[int, list[tuple[pulp.LpVariable, float]]] = {}
    for (_, option), share in per_node.items():
        if option.shared:
            shared.setdefault(option.stock, []).append((share, offer.lost_nodes * option.after_rps))
        else:
            model += after_loss - offer.lost_nodes * option.after_rps * share >= 0
    for lost in shared.values():
        model += after_loss - pulp.LpAffineExpression(lost) >= 0
