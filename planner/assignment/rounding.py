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
    PHASES,
    AssignmentSettings,
    ClassPerformance,
    IslandClass,
    Layout,
    ObjectiveKind,
    ObjectiveSettings,
    Phase,
)

NEARLY_WHOLE = 1e-6  # islands: short of a whole number by the solver's last digits


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
        for share, islands in _rounded(offer.counts[t], [share for share in shares if share.gpu == t]):
            counts[t, share.size] += islands
            if islands:
                served |= {(share.phase, j) for j in _served(offer, share)}
        _widen(offer, t, counts)
    if any((phase, j) not in served for phase in PHASES for j in range(len(offer.probabilities))):
        return None
    classes = {IslandClass(gpu=offer.gpus[t], size=size): n for (t, size), n in counts.items() if n}
    return Layout(counts=tuple(sorted(classes.items())))


def _shares(offer: Offer, gpus: dict[tuple[int, Phase, int], float]) -> list[_Share] | None:
    """The size and number of islands for each type and phase that the relaxation uses."""
    best = efficiency(offer)
    shares: list[_Share] = []
    for t, rows in enumerate(offer.options):
        for phase in PHASES:
            work = {j: g * best[t, phase, j] for (of, at, j), g in gpus.items() if (of, at) == (t, phase)}
            if work:
                gpus_used = sum(g for (of, at, _), g in gpus.items() if (of, at) == (t, phase))
                sized = _sized(t, phase, rows, work, gpus_used)
                if sized is None:
                    return None
                shares.append(sized)
    return shares


def _sized(
    t: int, phase: Phase, rows: tuple[ClassPerformance, ...], work: dict[int, float], gpus: float
) -> _Share | None:
    """The size that needs fewest GPUs for `work` (requests/s by range) among those within `gpus`, or the smallest."""
    need: dict[int, float] = {}
    for row in rows:
        rates = row.phase(phase).rates_rps
        if all(rates[j] > 0 for j in work):
            need[row.island.size] = sum(rate * row.island.size / rates[j] for j, rate in work.items())
    if not need:
        return None
    size = min((s for s in need if s <= gpus), key=lambda s: (need[s], s), default=min(need))
    return _Share(gpu=t, phase=phase, size=size, islands=need[size] / size)


def _rounded(total: int, shares: list[_Share]) -> list[tuple[_Share, int]]:
    """Whole numbers of islands within `total` GPUs, by largest remainders."""
    needed = sum(share.size * share.islands for share in shares)
    # Islands of one size do less with a GPU than the relaxation's mix of sizes: together they may not fit.
    scale = min(1.0, total / needed) if needed else 1.0
    ideal = [share.islands * scale for share in shares]
    islands = [floor(z + NEARLY_WHOLE) for z in ideal]
    spare = total - sum(share.size * n for share, n in zip(shares, islands, strict=True))
    # Shares without any island come first: their phase would stand still.
    for k in sorted(range(len(shares)), key=lambda k: (islands[k] > 0, islands[k] - ideal[k], k)):
        if shares[k].size <= spare:
            islands[k] += 1
            spare -= shares[k].size
    return list(zip(shares, islands, strict=True))


def _served(offer: Offer, share: _Share) -> list[int]:
    row = next(row for row in offer.options[share.gpu] if row.island.size == share.size)
    return [j for j, rate in enumerate(row.phase(share.phase).rates_rps) if rate > 0]


def _widen(offer: Offer, t: int, counts: Counter[tuple[int, int]]) -> None:
    """GPUs left over make an island of their own where some size serves; else the smallest island takes them."""
    sizes = {row.island.size: row for row in offer.options[t]}
    spare = offer.counts[t] - sum(size * n for (of, size), n in counts.items() if of == t)
    row_of_spare = sizes.get(spare)
    if row_of_spare is not None and any(row_of_spare.phase(phase).serves for phase in PHASES):
        counts[t, spare] += 1
        return
    smallest = min((size for (of, size), n in counts.items() if of == t and n), default=None)
    if spare and smallest is not None and smallest + spare in sizes:
        counts[t, smallest] -= 1
        counts[t, smallest + spare] += 1
