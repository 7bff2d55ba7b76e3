"""Islands given beforehand, who serves which range; divisions by skew and tokens of traces, which searches begin with.

| symbol | meaning | unit |
|---|---|---|
| x[i, j], b[i, j] | share of island i's time on range j, its rate there | 1, requests/s |
| q(s), p[j] | probability of an exact length, of a range | 1 |
| m[j] | lengths of range j that occur | 1 |

evaluated(s) = sum over i of x[i, j] b[i](s) q(s) / p[j], s in j      model(s) = sum over i of x[i, j] b[i, j] / m[j]
Source: Rignall 2025, sections 4.8.1 and 5.2. The paper takes the best degrees at each exact length; here each island
keeps those that it is given for all ranges.

Source: Rignall 2025, figure 4.8 (G_total 100, N_target 5; neither its skews nor its least size are printed, these are
ours) and figure 5.13 (Azure's traces of 2023).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from planner.assignment import assign
from planner.domain import (
    PHASES,
    Assignment,
    Duty,
    Formulation,
    LengthProfile,
    PerformanceTable,
    Phase,
    RequestTrace,
    Scenario,
)
from planner.evaluation.evaluator import Evaluator
from planner.plans.exact_lengths import Deployed, rates_at
from planner.proposing.search.divider import divide
from planner.studies.chapter5.records import (
    Division,
    IslandBenchmark,
    IslandCase,
    IslandOutcome,
    IslandShares,
    LengthCurve,
    TokenCounts,
)
from planner.workload import question_of


def run_islands(case: IslandCase, scenario: Scenario) -> IslandOutcome:
    """Solve the inner problem of `case` by the paper's formulation, and evaluate it at exact lengths.

    Raises InfeasibleError where the islands cannot serve the workload, SolverError where the solver fails.
    """
    table = Evaluator(question_of(scenario)).table(case.layout)
    settings = replace(scenario.assignment, formulation=Formulation.DEVIATION)
    assignment = assign(table, case.layout, settings)
    mixed = assign(table, case.layout, replace(settings, formulation=Formulation.MAX_RATE))
    pairs = [(s, q) for s, q in zip(scenario.workload.input_tokens, scenario.workload.probabilities, strict=True) if q]
    lengths, probabilities = tuple(s for s, _ in pairs), tuple(q for _, q in pairs)
    at = _places(table, lengths)
    return IslandOutcome(
        case=case,
        ranges=tuple((span.start, span.end, span.probability) for span in table.ranges),
        shares=tuple(_shares(table, duty) for duty in assignment.duties),
        deviation_rps=assignment.deviation_rps,
        optimal=assignment.optimal,
        mix_rps=mixed.throughput_rps,
        lengths=lengths,
        probabilities=probabilities,
        curves=tuple(_curve(scenario, table, assignment, phase, lengths, probabilities, at) for phase in PHASES),
        benchmarks=tuple(
            IslandBenchmark(island=island, phase=phase, count=count, rates_rps=table.row(island).phase(phase).rates_rps)
            for phase in PHASES
            for island, count in case.layout.counts
        ),
    )


def _places(table: PerformanceTable, lengths: tuple[int, ...]) -> tuple[int, ...]:
    """The range that each length falls into."""
    places = {start: j for j, start in enumerate(span.start for span in table.ranges)}
    width = table.ranges[0].end - table.ranges[0].start
    return tuple(places[s // width * width] for s in lengths)


def _shares(table: PerformanceTable, duty: Duty) -> IslandShares:
    rates = table.row(duty.island).phase(duty.phase).rates_rps
    return IslandShares(
        island=duty.island,
        phase=duty.phase,
        count=duty.count,
        time_shares=duty.time_shares,
        rates_rps=tuple(duty.count * x * b for x, b in zip(duty.time_shares, rates, strict=True)),
    )


def _curve(
    scenario: Scenario,
    table: PerformanceTable,
    assignment: Assignment,
    phase: Phase,
    lengths: tuple[int, ...],
    probabilities: tuple[float, ...],
    at: tuple[int, ...],
) -> LengthCurve:
    duties = [duty for duty in assignment.duties if duty.phase is phase]
    exact = [_exact(scenario, table, duty, lengths, at) for duty in duties]
    binned = [_shares(table, duty).rates_rps for duty in duties]
    members, p = Counter(at), [span.probability for span in table.ranges]
    return LengthCurve(
        phase=phase,
        evaluated_rps=tuple(
            sum(rates(place) for rates in exact) * q / p[j]
            for place, (q, j) in enumerate(zip(probabilities, at, strict=True))
        ),
        model_rps=tuple(sum(rates[j] for rates in binned) / members[j] for j in at),
    )


def _exact(
    scenario: Scenario, table: PerformanceTable, duty: Duty, lengths: tuple[int, ...], at: tuple[int, ...]
) -> Callable[[int], float]:
    """Place of a length -> what the duty's islands serve there in the time that they have for its range."""
    performance = table.row(duty.island).phase(duty.phase)
    if performance.parallel is None:  # idle in a phase that it cannot serve
        return lambda _: 0.0
    rates = rates_at(
        scenario,
        Deployed(gpu=duty.island.gpu, phase=duty.phase, parallel=performance.parallel, reach=scenario.cost.reach),
        lengths,
        [performance.batch_sizes[j] for j in at],
    )
    return lambda place: duty.count * duty.time_shares[at[place]] * rates[place]


GPUS, ISLANDS, LEAST_SIZE = 100, 5, 2
SKEWS = (-5.0, -2.0, -1.0, 0.0, 1.0, 2.0, 5.0)
CONTEXT, GENERATED = "context", "generated"
WIDTHS: Mapping[str, int] = {CONTEXT: 256, GENERATED: 32}
"""Tokens of a bin; of the context as wide as the ranges of a workload."""


def divisions() -> tuple[Division, ...]:
    """Figure 4.8: a division for each skew."""
    return tuple(
        Division(gpus=GPUS, least=LEAST_SIZE, skew=skew, sizes=divide(GPUS, ISLANDS, skew, LEAST_SIZE))
        for skew in SKEWS
    )


def profile_tokens(profiles: Iterable[LengthProfile]) -> Iterator[TokenCounts]:
    """Figure 5.13 of workloads: their contexts alone, as they keep no more of their answers than means."""
    for profile in profiles:
        yield _counts(profile.name, CONTEXT, profile.input_tokens, profile.probabilities)


def trace_tokens(traces: Iterable[RequestTrace]) -> Iterator[TokenCounts]:
    """Figure 5.13 of traces: contexts and generated tokens."""
    for trace in traces:
        for side, tokens in ((CONTEXT, trace.input_tokens), (GENERATED, trace.output_tokens)):
            yield _counts(trace.name, side, tokens, [1 / len(tokens)] * len(tokens))


def _counts(trace: str, side: str, tokens: Sequence[int], weights: Sequence[float]) -> TokenCounts:
    width = WIDTHS[side]
    shares = [0.0] * (max(tokens) // width + 1)
    for length, weight in zip(tokens, weights, strict=True):
        shares[length // width] += weight
    return TokenCounts(
        trace=trace,
        side=side,
        width=width,
        starts=tuple(width * place for place in range(len(shares))),
        shares=tuple(shares),
        mean=sum(length * weight for length, weight in zip(tokens, weights, strict=True)),
    )
