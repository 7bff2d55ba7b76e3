"""The paper's statements, each held against our numbers. Nothing here is known beforehand.

Source of the statements: Rignall 2025, sections 5.1 to 5.4, and 5.6 for the direct encoding against the divider.
"""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from planner.domain import PHASES, Phase
from planner.studies.chapter5.experiments import CODE, CONVERSATION, FLEETS
from planner.studies.chapter5.records import CaseOutcome, ExperimentOutcome, Finding, IslandOutcome

ALIKE = 0.05  # two rates within this share count as equal
MARGINAL = 0.10  # a gain up to this share is marginal
PROPORTIONAL = (0.75, 1.25)  # exponents of batch size that count as proportional
HALVES = (0.4, 0.6)
MUCH_SLOWER = 2.0
NO_BETTER = 0.01  # a lead up to this share is none
CLEARLY_LESS = 0.9  # of the other's best; the thesis says "at over half the throughput", its own runs 0.36


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
    results = _Found(experiments={outcome.experiment.name: outcome for outcome in experiments}, islands=islands)
    verdicts = []
    for figure, claim, judge in _STATEMENTS:
        if figure in figures:
            holds, numbers = judge(results)
            verdicts.append(Finding(figure=figure, claim=claim, holds=holds, numbers=numbers))
    return tuple(verdicts)


# --- table 5.1


def _mixed_beats_uniform(results: _Found) -> Answer:
    """Judged by the optima where all are known: fleets are compared, not the luck of searches."""
    cases = {outcome.case.label: outcome for outcome in results.cases("inventories")}
    numbers, holds = [], True
    for workload in (CODE, CONVERSATION):
        *mixed, uniform = (cases[f"{fleet}, {workload}"] for fleet in FLEETS)
        ratios = [_ratio(outcome.final.mean, uniform.final.mean) for outcome in mixed]
        exact = [_ratio(_exact(outcome), _exact(uniform)) for outcome in mixed]
        published = [_ratio(_published(outcome), _published(uniform)) for outcome in mixed]
        judged = ratios if any(math.isnan(ratio) or ratio == 0 for ratio in exact) else exact
        holds = holds and min(judged) > 1
        numbers.append(
            f"{workload}: searched a/c {ratios[0]:.2f}, b/c {ratios[1]:.2f} (optima {exact[0]:.2f}, {exact[1]:.2f}; "
            f"paper {published[0]:.2f}, {published[1]:.2f})"
        )
    return holds, "; ".join(numbers)


def _exact(outcome: CaseOutcome) -> float:
    return outcome.optimum.rate_rps if outcome.optimum else 0.0


def _published(outcome: CaseOutcome) -> float:
    return outcome.case.published.rate_rps if outcome.case.published else 0.0


def _ratio(a: float, b: float) -> float:
    return a / b if b else math.nan


# --- figures 5.1 to 5.4


def _all_prefill_not_all_decode(results: _Found) -> Answer:
    cannot = {
        phase: [
            f"{outcome.case.label} {row.island.gpu}/{row.island.size}"
            for outcome in results.islands
            for row in outcome.benchmarks
            if row.phase is phase and not any(row.rates_rps)
        ]
        for phase in PHASES
    }
    numbers = "; ".join(f"no {phase.value}: {', '.join(classes) or 'none'}" for phase, classes in cannot.items())
    return not cannot[Phase.PREFILL] and bool(cannot[Phase.DECODE]), f"islands with {numbers}"


def _prefill_is_the_bottleneck(results: _Found) -> Answer:
    counts = [
        (outcome.case.label, _islands(outcome, Phase.PREFILL), _islands(outcome, Phase.DECODE))
        for outcome in results.islands
    ]
    numbers = ", ".join(f"{label} {prefill} for prefill, {decode} for decode" for label, prefill, decode in counts)
    return all(prefill > decode for _, prefill, decode in counts), f"islands: {numbers}"


def _islands(outcome: IslandOutcome, phase: Phase) -> int:
    return sum(shares.count for shares in outcome.of_phase(phase))


def _follows_the_mix(results: _Found) -> Answer:
    off = [(outcome.case.label, max(_off_mix(outcome, phase) for phase in PHASES)) for outcome in results.islands]
    numbers = ", ".join(f"{label} {100 * share:.1f} %" for label, share in off)
    return all(share <= ALIKE for _, share in off), f"served off the mix, of a phase's rate: {numbers}"


def _off_mix(outcome: IslandOutcome, phase: Phase) -> float:
    """Share of a phase's rate that lies in other ranges than the mix has it."""
    rates, total = outcome.range_rates_rps(phase), outcome.phase_rps(phase)
    gaps = (abs(rate - p * total) for rate, (_, _, p) in zip(rates, outcome.ranges, strict=True))
    return sum(gaps) / 2 / total if total else 1.0


def _only_d_is_aligned(results: _Found) -> Answer:
    gaps = {outcome.case.label: _gap(outcome) for outcome in results.islands}
    numbers = ", ".join(f"{label} {100 * gap:.0f} %" for label, gap in gaps.items())
    holds = all((gap <= ALIKE) == (label == "(d)") for label, gap in gaps.items())
    exact = [(outcome.case.label, _exact_difference(outcome)) for outcome in results.islands]
    also = ", ".join(f"{label} {100 * share:+.1f} %" for label, share in exact)
    return holds, f"gap between the phases: {numbers}; evaluated at exact lengths against the model: {also}"


def _gap(outcome: IslandOutcome) -> float:
    rates = [outcome.phase_rps(phase) for phase in PHASES]
    return 1 - min(rates) / max(rates)


def _exact_difference(outcome: IslandOutcome) -> float:
    slow = min(outcome.curves, key=lambda curve: sum(curve.model_rps))
    return sum(slow.evaluated_rps) / sum(slow.model_rps) - 1


# --- figures 5.5 to 5.12


def _least_spread_at_large_batches(results: _Found) -> Answer:
    cases = results.cases("batch size")
    spreads = [outcome.final.deviation for outcome in cases]
    deviations = [value for value in spreads if value is not None]
    if len(deviations) < 2:
        return None, "takes at least two trials and two batch sizes"
    numbers = ", ".join(_mean_and_spread(outcome) for outcome in cases)
    return deviations[-1] < deviations[0], f"requests/s by batch size: {numbers}"


def _time_is_proportional(results: _Found) -> Answer:
    cases = results.cases("batch size")
    if len(cases) < 2:
        return None, "takes at least two batch sizes"
    numbers = ", ".join(f"{outcome.case.label}: {outcome.cpu_s.mean:.1f}" for outcome in cases)
    exponent = _slope([(outcome.case.value, outcome.cpu_s.mean) for outcome in cases])
    low, high = PROPORTIONAL
    return (
        low <= exponent <= high,
        f"CPU-seconds a trial by batch size: {numbers}; they grow as its power {exponent:.2f}",
    )


def _slope(points: Sequence[tuple[float, float]]) -> float:
    """Exponent of a power law through the points, by least squares on logarithms."""
    across, along = ([math.log(max(value, 1e-9)) for value in column] for column in zip(*points, strict=True))
    return statistics.linear_regression(across, along).slope


def _wider_is_marginally_better(results: _Found) -> Answer:
    cases = results.cases("skew range")
    if len(cases) < 2:
        return None, "takes at least two skew ranges"
    gain = _ratio(cases[-1].final.mean, cases[0].final.mean) - 1
    numbers = ", ".join(_mean_and_spread(outcome) for outcome in cases)
    return 0 < gain <= MARGINAL, f"requests/s by skew range: {numbers}; the widest gains {100 * gain:+.1f} %"


def _doubling_halves(results: _Found) -> Answer:
    cases = results.cases("least island size")
    if len(cases) < 2:
        return None, "takes at least two sizes"
    steps = [
        _ratio(b.final.mean, a.final.mean) ** (1 / math.log2(b.case.value / a.case.value)) for a, b in pairwise(cases)
    ]
    low, high = HALVES
    numbers = ", ".join(_mean_and_spread(outcome) for outcome in cases)
    factors = ", ".join(f"{step:.2f}" for step in steps)
    optima = ", ".join(f"{_exact(outcome):.0f}" for outcome in cases)
    return (
        all(low <= step <= high for step in steps),
        f"requests/s by least size: {numbers}; each doubling leaves {factors} of it; optima {optima}",
    )


def _direct_is_clearly_worse(results: _Found) -> Answer:
    divider = [outcome for name in ("batch size", "skew range") for outcome in results.cases(name)]
    direct = [outcome for name in results.experiments if name.startswith("direct") for outcome in results.cases(name)]
    if not divider:
        return None, "takes figure 5.5 or 5.7 besides"
    best, other = (max(outcome.final.high for outcome in cases) for cases in (divider, direct))
    share = _ratio(other, best)
    return share < CLEARLY_LESS, f"best direct {other:.0f}, best divider {best:.0f} requests/s: {share:.2f} of it"


def _rises_with_batch_size(results: _Found) -> Answer:
    return _rises(results.cases("direct, batch size, SAASBO"), "batch size")


def _rises_with_slots(results: _Found) -> Answer:
    return _rises(results.cases("direct, slots, SAASBO"), "slots")


def _rises(cases: Sequence[CaseOutcome], parameter: str) -> Answer:
    if len(cases) < 2:
        return None, f"takes at least two values of {parameter}"
    numbers = ", ".join(_mean_and_spread(outcome) for outcome in cases)
    return cases[-1].final.mean > cases[0].final.mean, f"requests/s by {parameter}: {numbers}"


def _saasbo_is_not_better(results: _Found) -> Answer:
    pairs = _pairs(results)
    if not pairs:
        return None, "takes figure 5.9 besides"
    numbers = ", ".join(
        f"{plain.case.label}: {plain.final.mean:.0f} against {sparse.final.mean:.0f}" for plain, sparse in pairs
    )
    plain, sparse = (sum(_over_rounds(pair[side]) for pair in pairs) / len(pairs) for side in (0, 1))
    return (
        plain >= sparse * (1 - NO_BETTER),
        f"requests/s of BO against SAASBO by batch size: {numbers}; "
        f"mean over all rounds {plain:.0f} against {sparse:.0f}",
    )


def _over_rounds(outcome: CaseOutcome) -> float:
    """Mean of the mean best rates: high where a search is good early."""
    return sum(spread.mean for spread in outcome.by_iteration) / len(outcome.by_iteration)


def _saasbo_is_much_slower(results: _Found) -> Answer:
    pairs = _pairs(results)
    if not pairs:
        return None, "takes equal batch sizes of both"
    ratios = [_ratio(sparse.cpu_s.mean, plain.cpu_s.mean) for plain, sparse in pairs]
    numbers = ", ".join(
        f"{plain.case.label}: {sparse.cpu_s.mean:.1f} / {plain.cpu_s.mean:.1f} = {ratio:.1f}"
        for (plain, sparse), ratio in zip(pairs, ratios, strict=True)
    )
    return min(ratios) >= MUCH_SLOWER, f"CPU-seconds a trial, SAASBO / BO by batch size: {numbers}"


def _pairs(results: _Found) -> list[tuple[CaseOutcome, CaseOutcome]]:
    """(BO, SAASBO) at equal batch sizes."""
    sparse = {outcome.case.value: outcome for outcome in results.cases("direct, batch size, SAASBO")}
    plain = results.cases("direct, batch size, BO")
    return [(outcome, sparse[outcome.case.value]) for outcome in plain if outcome.case.value in sparse]


def _mean_and_spread(outcome: CaseOutcome) -> str:
    spread = outcome.final
    around = "" if spread.deviation is None else f" ± {spread.deviation:.1f}"
    return f"{outcome.case.label}: {spread.mean:.0f}{around}"


_STATEMENTS: tuple[tuple[str, str, Callable[[_Found], Answer]], ...] = (
    ("table5.1", "Both mixed fleets serve more than 128 H200 of the same price.", _mixed_beats_uniform),
    ("5.1", "Every class of islands can prefill, not every one can decode.", _all_prefill_not_all_decode),
    ("5.2", "Many islands prefill and few decode: prefill is the bottleneck.", _prefill_is_the_bottleneck),
    ("5.3", "The islands' work follows the mix of lengths precisely.", _follows_the_mix),
    ("5.4", "The phases' rates differ in all cases but (d).", _only_d_is_aligned),
    ("5.5", "Larger batches lower the variance.", _least_spread_at_large_batches),
    ("5.6", "Execution time is about proportional to batch size.", _time_is_proportional),
    ("5.7", "A wider skew range is marginally better.", _wider_is_marginally_better),
    ("5.8", "Every doubling of the least island size about halves the throughput.", _doubling_halves),
    ("5.9", "Larger batches find more throughput (direct, SAASBO).", _rises_with_batch_size),
    ("5.9", "The direct encoding performs significantly worse than the divider.", _direct_is_clearly_worse),
    ("5.10", "SAASBO is not better than standard BO.", _saasbo_is_not_better),
    ("5.11", "SAASBO is much slower than standard BO.", _saasbo_is_much_slower),
    ("5.12", "More slots find more throughput.", _rises_with_slots),
)
