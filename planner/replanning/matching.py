"""Who goes where: counts on both sides paired so that the gains of all pairs together are largest.

| symbol | meaning | unit |
|---|---|---|
| n_i, m_j | of each kind of source, of sink | 1 |
| g_ij | gain of a pair, None: they are no pair; above 0, or it is left out | any |
| x_ij | pairs, integer: sum_j x_ij <= n_i, sum_i x_ij <= m_j, sum g x largest | 1 |

Solved by augmenting along the path of largest gain until none has any: each flow on the way is the best of its size
(its residual network has no cycle of positive gain), and the gains of the paths fall, so the last one is the best.
"""

from collections.abc import Sequence

Pairs = dict[tuple[int, int], int]
Gains = Sequence[Sequence[int | None]]


def best_pairs(sources: Sequence[int], sinks: Sequence[int], gains: Gains) -> Pairs:
    """How many of each pair, those of none left out. Gains are integers, so that the sum is exact."""
    spare_sources, spare_sinks, pairs = list(sources), list(sinks), dict[tuple[int, int], int]()
    while True:
        path, gain = _best_path(spare_sources, spare_sinks, gains, pairs)
        # Gains of paths fall: none after this one would add anything.
        if gain <= 0:
            return {pair: count for pair, count in sorted(pairs.items()) if count}
        # As much as the ends can spare, and as the pairs that are taken apart have.
        forward, backward = path[0::2], path[1::2]
        count = min([spare_sources[path[0][0]], spare_sinks[path[-1][1]], *(pairs[pair] for pair in backward)])
        spare_sources[path[0][0]] -= count
        spare_sinks[path[-1][1]] -= count
        for pair in forward:
            pairs[pair] = pairs.get(pair, 0) + count
        for pair in backward:
            pairs[pair] -= count


def _best_path(
    sources: Sequence[int], sinks: Sequence[int], gains: Gains, pairs: Pairs
) -> tuple[list[tuple[int, int]], int]:
    """The alternating path of largest gain from a source to a sink that have some to spare: pairs that are
    added and taken away in turn (Bellman-Ford)."""
    reached: list[int | None] = [0 if spare else None for spare in sources]
    through: dict[int, tuple[int, int]] = {}  # sink -> the pair that is added last
    before: dict[int, tuple[int, int]] = {}  # source -> the pair that is taken away last
    ends: list[int | None] = [None] * len(sinks)
    improved = True
    while improved:
        improved = False
        for i, start in enumerate(reached):
            for j in range(len(sinks)) if start is not None else ():
                gain, best = gains[i][j], ends[j]
                if gain is not None and start is not None and (best is None or start + gain > best):
                    ends[j], through[j], improved = start + gain, (i, j), True
        for (i, j), count in pairs.items():
            end, gain, best = ends[j], gains[i][j], reached[i]
            if count and end is not None and gain is not None and (best is None or end - gain > best):
                reached[i], before[i], improved = end - gain, (i, j), True
    spare = [(end, -j) for j, end in enumerate(ends) if end is not None and sinks[j]]
    if not spare:
        return [], 0
    gain, number = max(spare)
    path = [through[-number]]
    while path[-1][0] in before:
        path.append(before[path[-1][0]])
        path.append(through[path[-1][1]])
    return path[::-1], gain
