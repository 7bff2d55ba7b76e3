"""The paper's statements, each held against our numbers. Nothing here is known beforehand.

Source of the statements: Rignall 2025, sections 5.1 to 5.4, and 5.6 for the direct encoding against the divider.
"""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from planner.domain import Phase
from planner.studies.chapter5.experiments import CODE, CONVERSATION, FLEETS
from planner.studies.chapter5.records import CaseOutcome, ExperimentOutcome, Finding, IslandOutcome

ALIKE = 0.05  # two rates within this share count as equal
MARGINAL = 0.10  # a gain up to this share is marginal
PROPORTIONAL = (0.75, 1.25)  # exponents of batch size that count as proportional
HALVES = (0.4, 0.6)
MUCH_SLOWER = 2.0
NO_BETTER = 0.01  # a lead up to this share is none
CLEARLY_LESS = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """What was run: the experiments by name, and the given islands."""

    experiments: Mapping[str, ExperimentOutcome]
    islands: Sequence[IslandOutcome]

    def cases(self, name: str) -> tuple[CaseOutcome, ...]:
        """The cases of an experiment; none where it was not run."""
        return self.experiments[name].cases if name in self.experiments else ()


Answer = tuple[bool | None, str]


def findings(
    figures: Sequence[str], experiments: Sequence[ExperimentOutcome], islands: Sequence[IslandOutcome]
) -> tuple[Finding, ...]:
    """One finding a statement, in the order of the figures."""
    found = _Found(experiments={one.experiment.name: one for one in experiments}, islands=islands)
    made = []
    for figure, claim, judge in _STATEMENTS:
        if figure in figures:
            holds, numbers = judge(found)
            made.append(Finding(figure=figure, claim=claim, holds=holds, numbers=numbers))
    return tuple(made)


# --- table 5.1


def _mixed_beats_uniform(found: _Found) -> Answer:
    """Judged by the optima where all are known: fleets are compared, not the luck of searches."""
    cases = {one.case.label: one for one in found.cases("inventories")}
    told, holds = [], True
    for workload in (CODE, CONVERSATION):
        *mixed, uniform = (cases[f"{fleet}, {workload}"] for fleet in FLEETS)
        ratios = [_ratio(one.final.mean, uniform.final.mean) for one in mixed]
        exact = [_ratio(_exact(one), _exact(uniform)) for one in mixed]
        published = [_ratio(_published(one), _published(uniform)) for one in mixed]
        judged = ratios if any(math.isnan(ratio) or ratio == 0 for ratio in exact) else exact
        holds = holds and max(judged) > 1
        told.append(
            f"{workload}: a/c {ratios[0]:.2f}, b/c {ratios[1]:.2f} (optima {exact[0]:.2f}, {exact[1]:.2f}; paper "
            f"{published[0]:.2f}, {published[1]:.2f})"
        )
    return holds, "; ".join(told)


def _exact(one: CaseOutcome) -> float:
    return one.optimum.rate_rps if one.optimum else 0.0


def _published(one: CaseOutcome) -> float:
    return one.case.published.rate_rps if one.case.published else 0.0


def _ratio(a: float, b: float) -> float:
    return a / b if b else math.nan


# --- figures 5.2 to 5.4


def _prefill_is_the_bottleneck(found: _Found) -> Answer:
    counts = [(one.case.label, _islands(one, Phase.PREFILL), _islands(one, Phase.DECODE)) for one in found.islands]
    told = ", ".join(f"{label} {prefill} for prefill, {decode} for decode" for label, prefill, decode in counts)
    return all(prefill > decode for _, prefill, decode in counts), f"islands: {told}"


def _islands(one: IslandOutcome, phase: Phase) -> int:
    return sum(shares.count for shares in one.of_phase(phase))


def _follows_the_mix(found: _Found) -> Answer:
    off = [(one.case.label, max(_off_mix(one, phase) for phase in Phase)) for one in found.islands]
    told = ", ".join(f"{label} {100 * share:.1f} %" for label, share in off)
    return all(share <= ALIKE for _, share in off), f"served off the mix, of a phase's rate: {told}"


def _off_mix(one: IslandOutcome, phase: Phase) -> float:
    """Share of a phase's rate that lies in other ranges than the mix has it."""
    rates, total = one.range_rates_rps(phase), one.phase_rps(phase)
    gaps = (abs(rate - p * total) for rate, (_, _, p) in zip(rates, one.ranges, strict=True))
    return sum(gaps) / 2 / total if total else 1.0


def _only_d_is_aligned(found: _Found) -> Answer:
    gaps = {one.case.label: _gap(one) for one in found.islands}
    told = ", ".join(f"{label} {100 * gap:.0f} %" for label, gap in gaps.items())
    holds = all((gap <= ALIKE) == (label == "(d)") for label, gap in gaps.items())
    exact = [(one.case.label, _exact_difference(one)) for one in found.islands]
    also = ", ".join(f"{label} {100 * share:+.1f} %" for label, share in exact)
    return holds, f"gap between the phases: {told}; evaluated at exact lengths against the model: {also}"


def _gap(one: IslandOutcome) -> float:
    rates = [one.phase_rps(phase) for phase in Phase]
    return 1 - min(rates) / max(rates)


def _exact_difference(one: IslandOutcome) -> float:
    slow = min(one.curves, key=lambda curve: sum(curve.model_rps))
    return sum(slow.evaluated_rps) / sum(slow.model_rps) - 1


# --- figures 5.5 to 5.12


def _least_spread_at_large_batches(found: _Found) -> Answer:
    cases = found.cases("batch size")
    spreads = [one.final.deviation for one in cases]
    known = [value for value in spreads if value is not None]
    if len(known) < 2:
        return None, "takes at least two trials and two batch sizes"
    told = ", ".join(_mean_and_spread(one) for one in cases)
    return known[-1] < known[0], f"requests/s by batch size: {told}"


def _time_is_proportional(found: _Found) -> Answer:
    cases = found.cases("batch size")
    if len(cases) < 2:
        return None, "takes at least two batch sizes"
    told = ", ".join(f"{one.case.label}: {one.cpu_s.mean:.1f}" for one in cases)
    exponent = _slope([(one.case.value, one.cpu_s.mean) for one in cases])
    low, high = PROPORTIONAL
    return low <= exponent <= high, f"CPU-seconds a trial by batch size: {told}; they grow as its power {exponent:.2f}"


def _slope(points: Sequence[tuple[float, float]]) -> float:
    """Exponent of a power law through the points, by least squares on logarithms."""
    across, along = ([math.log(max(value, 1e-9)) for value in column] for column in zip(*points, strict=True))
    return statistics.linear_regression(across, along).slope


def _wider_is_marginally_better(found: _Found) -> Answer:
    cases = found.cases("skew range")
    if len(cases) < 2:
        return None, "takes at least two skew ranges"
    gain = _ratio(cases[-1].final.mean, cases[0].final.mean) - 1
    told = ", ".join(_mean_and_spread(one) for one in cases)
    return 0 < gain <= MARGINAL, f"requests/s by skew range: {told}; the widest gains {100 * gain:+.1f} %"


def _doubling_halves(found: _Found) -> Answer:
    cases = found.cases("least island size")
    if len(cases) < 2:
        return None, "takes at least two sizes"
    steps = [
        _ratio(b.final.mean, a.final.mean) ** (1 / math.log2(b.case.value / a.case.value)) for a, b in pairwise(cases)
    ]
    low, high = HALVES
    told = ", ".join(_mean_and_spread(one) for one in cases)
    factors = ", ".join(f"{step:.2f}" for step in steps)
    optima = ", ".join(f"{_exact(one):.0f}" for one in cases)
    return (
        all(low <= step <= high for step in steps),
        f"requests/s by least size: {told}; each doubling leaves {factors} of it; optima {optima}",
    )


def _direct_is_clearly_worse(found: _Found) -> Answer:
    divider = [one for name in ("batch size", "skew range") for one in found.cases(name)]
    direct = [one for name in found.experiments if name.startswith("direct") for one in found.cases(name)]
    if not divider:
        return None, "takes figure 5.5 or 5.7 besides"
    best, other = (max(one.final.high for one in cases) for cases in (divider, direct))
    share = _ratio(other, best)
    return share < CLEARLY_LESS, f"best direct {other:.0f}, best divider {best:.0f} requests/s: {share:.2f} of it"


def _rises_with_batch_size(found: _Found) -> Answer:
    return _rises(found.cases("direct, batch size, SAASBO"), "batch size")


def _rises_with_slots(found: _Found) -> Answer:
    return _rises(found.cases("direct, slots, SAASBO"), "slots")


def _rises(cases: Sequence[CaseOutcome], parameter: str) -> Answer:
    if len(cases) < 2:
        return None, f"takes at least two values of {parameter}"
    told = ", ".join(_mean_and_spread(one) for one in cases)
    return cases[-1].final.mean > cases[0].final.mean, f"requests/s by {parameter}: {told}"


def _saasbo_is_not_better(found: _Found) -> Answer:
    pairs = _pairs(found)
    if not pairs:
        return None, "takes figure 5.9 besides"
    told = ", ".join(
        f"{plain.case.label}: {plain.final.mean:.0f} against {sparse.final.mean:.0f}" for plain, sparse in pairs
    )
    plain, sparse = (sum(_over_rounds(pair[side]) for pair in pairs) / len(pairs) for side in (0, 1))
    return (
        plain >= sparse * (1 - NO_BETTER),
        f"requests/s of BO against SAASBO by batch size: {told}; mean over all rounds {plain:.0f} against {sparse:.0f}",
    )


def _over_rounds(one: CaseOutcome) -> float:
    """Mean of the mean best rates: high where a search is good early."""
    return sum(spread.mean for spread in one.by_iteration) / len(one.by_iteration)


def _saasbo_is_much_slower(found: _Found) -> Answer:
    pairs = _pairs(found)
    if not pairs:
        return None, "takes equal batch sizes of both"
    ratios = [_ratio(sparse.cpu_s.mean, plain.cpu_s.mean) for plain, sparse in pairs]
    told = ", ".join(
        f"{plain.case.label}: {sparse.cpu_s.mean:.1f} / {plain.cpu_s.mean:.1f} = {ratio:.1f}"
        for (plain, sparse), ratio in zip(pairs, ratios, strict=True)
    )
    return min(ratios) >= MUCH_SLOWER, f"CPU-seconds a trial, SAASBO / BO by batch size: {told}"


def _pairs(found: _Found) -> list[tuple[CaseOutcome, CaseOutcome]]:
    """(BO, SAASBO) at equal batch sizes."""
    sparse = {one.case.value: one for one in found.cases("direct, batch size, SAASBO")}
    plain = found.cases("direct, batch size, BO")
    return [(one, sparse[one.case.value]) for one in plain if one.case.value in sparse]


def _mean_and_spread(one: CaseOutcome) -> str:
    spread = one.final
    around = "" if spread.deviation is None else f" ± {spread.deviation:.1f}"
    return f"{one.case.label}: {spread.mean:.0f}{around}"


_STATEMENTS: tuple[tuple[str, str, Callable[[_Found], Answer]], ...] = (
    ("table5.1", "A mixed fleet is faster than a uniform one of the same price.", _mixed_beats_uniform),
    ("5.2", "Many islands prefill and few decode: prefill is the bottleneck.", _prefill_is_the_bottleneck),
    ("5.3", "The islands' work follows the mix of lengths precisely.", _follows_the_mix),
    ("5.4", "The phases' rates differ in all cases but (d).", _only_d_is_aligned),
    ("5.5", "Larger batches lower the variance.", _least_spread_at_large_batches),
    ("5.6", "Execution time is about proportional to batch size.", _time_is_proportional),
    ("5.7", "A wider skew range is marginally better.", _wider_is_marginally_better),
    ("5.8", "Every doubling of the least island size about halves the throughput.", _doubling_halves),
    ("5.9", "Larger batches find more throughput (direct, SAASBO).", _rises_with_batch_size),
    ("5.9", "The direct encoding reaches less than half of the divider's throughput.", _direct_is_clearly_worse),
    ("5.10", "SAASBO is not better than standard BO.", _saasbo_is_not_better),
    ("5.11", "SAASBO is much slower than standard BO.", _saasbo_is_much_slower),
    ("5.12", "More slots find more throughput.", _rises_with_slots),
)
