"""The relaxation rounded to whole islands: a layout in milliseconds, good enough to begin a search with.

| symbol | meaning | unit |
|---|---|---|
| g[t, phase, j] | GPUs' worth of time in the relaxation | GPUs |
| w[j] = e g | what a type and phase serve of a range there | requests/s |
| G(s) = sum_j w s / b[s, j] | GPUs that islands of size s need for the same | GPUs |
| z = G / s | islands of the type and phase | 1 |

Each (type, phase) of the relaxation gets the size of least G, the smaller of equals, that fits into its share of the
GPUs. z is rounded down; what is left of a type goes to the largest remainders, and then widens an island.
"""

from collections import Counter
from dataclasses import dataclass
from math import floor

from planner.assignment.layout_options import Offer, efficiency
from planner.assignment.relaxation import relax
from planner.domain import (
    AssignmentSettings,
    ClassPerformance,
    IslandClass,
    Layout,
    ObjectiveKind,
    ObjectiveSettings,
    Phase,
)

WHOLE = 1e-6  # islands: short of a whole number by the solver's last digits


@dataclass(frozen=True, slots=True, kw_only=True)
class _Share:
    """What a type does of a phase: islands of one size, and how many of them the relaxation would have."""

    gpu: int
    phase: Phase
    size: int
    islands: float


def rounded(offer: Offer, settings: AssignmentSettings) -> Layout | None:
    """A layout of `offer` near the relaxed optimum of the rate; None where rounding leaves a range unserved."""
    relaxed = relax(offer, ObjectiveSettings(kind=ObjectiveKind.RATE), settings)
    shares = _shares(offer, relaxed.gpus)
    if shares is None:
        return None
    counts: Counter[tuple[int, int]] = Counter()
    served: set[tuple[Phase, int]] = set()
    for t in range(len(offer.gpus)):
        for share, islands in _rounded(offer.counts[t], [one for one in shares if one.gpu == t]):
            counts[t, share.size] += islands
            if islands:
                served |= {(share.phase, j) for j in _served(offer, share)}
        _widen(offer, t, counts)
    if any((phase, j) not in served for phase in Phase for j in range(len(offer.probabilities))):
        return None
    made = {IslandClass(gpu=offer.gpus[t], size=size): n for (t, size), n in counts.items() if n}
    return Layout(counts=tuple(sorted(made.items())))


def _shares(offer: Offer, gpus: dict[tuple[int, Phase, int], float]) -> list[_Share] | None:
    """The size and number of islands for each type and phase that the relaxation uses."""
    best = efficiency(offer)
    shares: list[_Share] = []
    for t, rows in enumerate(offer.options):
        for phase in Phase:
            work = {j: g * best[t, phase, j] for (of, at, j), g in gpus.items() if (of, at) == (t, phase)}
            if work:
                held = sum(g for (of, at, _), g in gpus.items() if (of, at) == (t, phase))
                found = _sized(t, phase, rows, work, held)
                if found is None:
                    return None
                shares.append(found)
    return shares


def _sized(
    t: int, phase: Phase, rows: tuple[ClassPerformance, ...], work: dict[int, float], held: float
) -> _Share | None:
    """The size that needs fewest GPUs for `work` (requests/s by range) among those within `held`, or the smallest."""
    need: dict[int, float] = {}
    for row in rows:
        rates = row.phase(phase).rates_rps
        if all(rates[j] > 0 for j in work):
            need[row.island.size] = sum(rate * row.island.size / rates[j] for j, rate in work.items())
    if not need:
        return None
    size = min((s for s in need if s <= held), key=lambda s: (need[s], s), default=min(need))
    return _Share(gpu=t, phase=phase, size=size, islands=need[size] / size)


def _rounded(total: int, shares: list[_Share]) -> list[tuple[_Share, int]]:
    """Whole numbers of islands within `total` GPUs, by largest remainders."""
    wanted = sum(one.size * one.islands for one in shares)
    scale = min(1.0, total / wanted) if wanted else 1.0
    ideal = [one.islands * scale for one in shares]
    whole = [floor(z + WHOLE) for z in ideal]
    left = total - sum(one.size * n for one, n in zip(shares, whole, strict=True))
    for k in sorted(range(len(shares)), key=lambda k: (whole[k] > 0, whole[k] - ideal[k], k)):
        if shares[k].size <= left:
            whole[k] += 1
            left -= shares[k].size
    return list(zip(shares, whole, strict=True))


def _served(offer: Offer, share: _Share) -> list[int]:
    row = next(row for row in offer.options[share.gpu] if row.island.size == share.size)
    return [j for j, rate in enumerate(row.phase(share.phase).rates_rps) if rate > 0]


def _widen(offer: Offer, t: int, counts: Counter[tuple[int, int]]) -> None:
    """GPUs left over make an island of their own where some size serves; else the smallest island takes them."""
    sizes = {row.island.size: row for row in offer.options[t]}
    left = offer.counts[t] - sum(size * n for (of, size), n in counts.items() if of == t)
    own = sizes.get(left)
    if own is not None and any(own.phase(phase).serves for phase in Phase):
        counts[t, left] += 1
        return
    smallest = min((size for (of, size), n in counts.items() if of == t and n), default=None)
    if left and smallest is not None and smallest + left in sizes:
        counts[t, smallest] -= 1
        counts[t, smallest + left] += 1
