"""What to measure next: the benchmark runs that are expected to save most of what deciding now may lose.

Machines are drawn from what is known of the cost model's factors (`cost.benchmarks.draws`). A decision is what is
deployed: islands, each with its phase and parallel configuration; who serves which prompts is left to the inner
problem, as a router can be told anew. Decisions that are best in some draw are judged in every draw. A run shows the
rate of one configuration on one GPU type; what it is worth follows by `cost.benchmarks.draws`. Comparing
decisions needs no fine ranges: lengths are cut into at most MOST_RANGES, and islands are of whole nodes where those
serve. Waiting is not counted beyond what a rate within its service level is, nor are buckets: what GPUs of a type do
in a phase, which a run shows, hardly hangs on how a router parts the prompts.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice, repeat
from math import ceil, log
from statistics import fmean, pstdev

from planner.assignment import assign, best_layout, in_role
from planner.cost import tabulate_placed
from planner.cost.benchmarks.draws import Draw, choose_measurements, draws_of, in_force, regret
from planner.domain import (
    Assignment,
    Calibration,
    ClassPerformance,
    CostMode,
    CostSource,
    Formulation,
    IslandClass,
    Layout,
    MeasuringAdvice,
    ParallelConfig,
    PerformanceTable,
    Phase,
    PhasePerformance,
    ProposedRun,
    Scenario,
    Sizes,
    SizeSet,
    SloSettings,
    Workload,
)
from planner.errors import InfeasibleError, InputError, SolverError
from planner.evaluation.evaluator import Evaluator
from planner.processes.interrupts import check
from planner.proposing.certificate import layout_settings, offer_of, single
from planner.proposing.feasibility import posed, require_room

DRAWS = 48
FEWEST_DRAWS = 12
MOST_DRAWS = 1000
MOST_RUNS = 8
MOST_RANGES = 8
SOLVED = 16  # draws whose best layouts are the decisions
MOST_LAYOUTS = 10
CONFIGURATIONS = 2  # of a GPU type and phase
NEGLIGIBLE = 1e-3  # of the rate: runs that save less, and make none after them worth more, change no decision
GAP = 0.005
WORK = 10.0
PROMPT_SHARE = 8  # a run about decode takes in an eighth of its mean context, and answers the rest
LEAST_PROMPT = 16

CanRun = Callable[[ProposedRun], bool]
_Configuration = tuple[str, Phase, ParallelConfig]


def what_to_measure(
    scenario: Scenario,
    *,
    runs: int = 3,
    draws: int = DRAWS,
    seed: int = 0,
    can_run: CanRun = lambda _: True,
) -> MeasuringAdvice:
    """The `runs` benchmark runs that narrow the scenario's layout most; fewer where fewer change the decision.

    Only what `can_run` is proposed: an engine does not serve every configuration.
    Raises InputError where numbers are out of bounds or the scenario's rates do not follow from factors, and as a plan
    does before it searches; InfeasibleError as the layout programme does, or where service levels hold in no draw.
    """
    _require_bounds(runs, draws)
    _require_factors(scenario)
    coarse = _coarse(scenario)
    with_room = Evaluator(posed(coarse))
    require_room(with_room)
    gpus = [item.gpu for item in scenario.inventory.items]
    calibration = scenario.cost.calibration
    central = _Machines.of(coarse, in_force(calibration))
    drawn = [_Machines.of(coarse, draw) for draw in draws_of(gpus, calibration, count=draws, seed=seed)]
    decisions = _decisions(central, drawn[:SOLVED])
    values = [machines.rates_rps(decisions) for machines in drawn]
    candidates = list(_candidates(central, decisions, can_run))
    shown = [[log(machines.shown_rps(_configuration(run))) for run in candidates] for machines in drawn]
    means = [fmean(column) for column in zip(*values, strict=True)]
    best = max(range(len(decisions)), key=lambda k: means[k])
    if not means[best] > 0:
        raise InfeasibleError(
            f"scenario {scenario.name}: the plan serves nothing in all {draws} draws of the factors under its service "
            "levels.",
            hint="Loosen slo: it holds by the factors' values alone.",
        )
    chosen = list(choose_measurements(values, shown, runs))
    while chosen and chosen[-1].reduction < NEGLIGIBLE * means[best]:
        chosen.pop()
    return MeasuringAdvice(
        layout=decisions[best],
        layouts=len(decisions),
        draws=draws,
        expected_rps=means[best],
        regret_rps=regret(values),
        runs=tuple(
            replace(
                candidates[choice.measurement],
                spread=pstdev(row[choice.measurement] for row in shown),
                reduction_rps=choice.reduction,
            )
            for choice in chosen
        ),
        considered=len(candidates),
    )


def _require_bounds(runs: int, draws: int) -> None:
    if not 1 <= runs <= MOST_RUNS:
        raise InputError(f"runs: must be from 1 to {MOST_RUNS}, got {runs}.", hint="Two or three are worth their time.")
    if not FEWEST_DRAWS <= draws <= MOST_DRAWS:
        raise InputError(
            f"draws: must be from {FEWEST_DRAWS} to {MOST_DRAWS}, got {draws}.",
            hint=f"{DRAWS} tell runs apart; more are slower and firmer.",
        )


def _require_factors(scenario: Scenario) -> None:
    """Raises InputError where rates do not follow from factors, or the objective is not a rate."""
    cost, objective = scenario.cost, scenario.objective
    if cost.mode is CostMode.REFERENCE:
        raise InputError(
            f"scenario {scenario.name}: cost.mode: must be default to ask what to measure, got reference: its "
            "factors are the paper's.",
            hint="Set cost.mode to default.",
        )
    if cost.source is CostSource.TABULATED:
        raise InputError(
            f"scenario {scenario.name}: cost.source: must be analytic to ask what to measure, got tabulated: a profile "
            "is measured already.",
            hint="Leave cost.source and cost.profile out.",
        )
    if objective.minimises or objective.kind.row.per_charge:
        raise InputError(
            f"scenario {scenario.name}: objective.kind: must be one whose value is a rate to ask what to measure, got "
            f"{objective.kind.value}.",
            hint="Leave objective out, or choose budget with what the fleet may cost.",
        )


def _coarse(scenario: Scenario) -> Scenario:
    """The scenario off its nodes, its lengths cut into few ranges."""
    width = scenario.ranges.width
    cuts = (scenario.workload.input_tokens[-1] + 1) / width
    ranges = replace(scenario.ranges, width=width * max(1, ceil(cuts / MOST_RANGES)))
    return replace(scenario, ranges=ranges, cluster=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Machines:
    """Decisions judged where the machines are as in one draw."""

    scenario: Scenario
    evaluator: Evaluator
    draw: Draw

    @classmethod
    def of(cls, scenario: Scenario, draw: Draw) -> "_Machines":
        """The scenario under the factors of a draw."""
        drawn = replace(scenario, cost=replace(scenario.cost, calibration=draw.calibration))
        return cls(scenario=drawn, evaluator=Evaluator(posed(drawn)), draw=draw)

    @property
    def workload(self) -> Workload:
        """In ranges."""
        return self.evaluator.question.workload

    def best(self, sizes: Sizes) -> Layout:
        """The best decision, nearly. Raises as `best_layout` and `assign` do."""
        plain = offer_of(self.scenario, self.evaluator, sizes)
        rows = tuple(tuple(_scaled(row, self.draw) for row in rows) for rows in plain.options)
        settings = layout_settings(self.scenario)
        quick = replace(settings, gap=max(settings.gap, GAP), work_limit=min(settings.work_limit, WORK))
        layout = best_layout(replace(plain, options=rows), single(self.scenario.objective), quick, few=True).layout
        table = PerformanceTable(ranges=self.workload.ranges, classes=tuple(row for of_type in rows for row in of_type))
        return Layout.of(self._at_work(table, layout.plain))

    def _at_work(self, table: PerformanceTable, layout: Layout) -> Iterator[IslandClass]:
        """The islands of a layout in what they do."""
        for duty in self._assigned(table, layout).duties:
            performance = table.row(duty.island).phase(duty.phase)
            if performance.serves:
                yield from repeat(in_role(duty.island, duty.phase, performance), duty.count)

    def _assigned(self, table: PerformanceTable, layout: Layout) -> Assignment:
        settings = replace(self.scenario.assignment, formulation=Formulation.MAX_RATE)
        return assign(table, layout, settings, self.scenario.network, self.evaluator.question.kv)

    def rates_rps(self, decisions: Sequence[Layout]) -> list[float]:
        """What each serves here (requests/s); 0 where a range is out of reach. Raises SolverError as `assign` does."""
        islands = dict.fromkeys(island for decision in decisions for island, _ in decision.counts)
        table = PerformanceTable(ranges=self.workload.ranges, classes=tuple(self._in_role(i) for i in islands))
        rates = []
        for decision in decisions:
            check()
            try:
                rates.append(self._assigned(table, decision).throughput_rps)
            except InfeasibleError:
                rates.append(0.0)
        return rates

    def _in_role(self, island: IslandClass) -> ClassPerformance:
        """What islands do here in the configuration that was decided on."""
        (role,) = island.role
        none = (False,) * len(self.workload.ranges)
        half = self._performance(island.gpu, role.phase, role.parallel, self.draw.calibration, self.scenario.slo)
        prefills = role.phase is Phase.PREFILL
        row = ClassPerformance(
            island=island,
            prefill=half if prefills else half.among(none),
            decode=half.among(none) if prefills else half,
        )
        return _scaled(row, self.draw)

    def on_bench(self, configuration: _Configuration) -> PhasePerformance:
        """What one copy does by itself, without service levels and without a router before it."""
        return self._performance(*configuration, self.draw.on_bench, None)

    def _performance(
        self, gpu: str, phase: Phase, parallel: ParallelConfig, calibration: Calibration, slo: SloSettings | None
    ) -> PhasePerformance:
        return tabulate_placed(
            self.scenario.inventory.item(gpu).gpu,
            phase,
            parallel,
            model=self.scenario.model,
            workload=self.workload,
            settings=replace(self.scenario.cost, calibration=calibration),
            slo=slo,
        )

    def shown_rps(self, configuration: _Configuration) -> float:
        """The rate that a run of the configuration shows here (requests/s of its range)."""
        bench, (gpu, phase, _) = self.on_bench(configuration), configuration
        j = _nearest(bench, self.workload)
        assert j is not None, "what fits into memory does not depend on factors"
        return bench.rates_rps[j] * self.draw.multiple(gpu, phase)


def _scaled(row: ClassPerformance, draw: Draw) -> ClassPerformance:
    """The row at the draw's multiples of its rates."""

    def half(phase: Phase, performance: PhasePerformance) -> PhasePerformance:
        by = draw.multiple(row.island.gpu, phase)
        return replace(
            performance,
            rates_rps=tuple(rate * by for rate in performance.rates_rps),
            step_ms=tuple(ms / by for ms in performance.step_ms),
            service_ms=tuple(ms / by for ms in performance.service_ms),
        )

    return replace(
        row,
        prefill=half(Phase.PREFILL, row.prefill),
        decode=half(Phase.DECODE, row.decode),
        further=tuple((phase, half(phase, performance)) for phase, performance in row.further),
    )


def _decisions(central: _Machines, drawn: Sequence[_Machines]) -> list[Layout]:
    """What is best by the factors in force, then what is in the draws, the most frequent first."""
    sizes, first = _first(central)
    best: Counter[Layout] = Counter()
    for machines in drawn:
        check()
        with suppress(InfeasibleError, SolverError):  # a draw that is not solved in time proposes nothing
            best[machines.best(sizes)] += 1
    others = [decision for decision, _ in best.most_common() if decision != first]
    return [first, *others][:MOST_LAYOUTS]


def _first(central: _Machines) -> tuple[Sizes, Layout]:
    """Sizes of islands that suit the scenario, and the best decision of these. Raises as `_Machines.best` does."""
    size_set = central.scenario.search.sizes
    every = size_set in (SizeSet.ALL, SizeSet.WHOLE_NODES)
    size_sets = (_whole_hosts(central.scenario), SizeSet.POWERS_OF_TWO) if every else ()
    for sizes in size_sets:
        with suppress(InfeasibleError):
            return sizes, central.best(sizes)
    return size_set, central.best(size_set)


def _whole_hosts(scenario: Scenario) -> tuple[int, ...]:
    """Sizes without parts of a host: which parts are best hangs on more than the GPU types that are compared."""
    host = max(item.gpu.gpus_per_host for item in scenario.inventory.items)
    return tuple(range(host, max(item.count for item in scenario.inventory.items) + 1, host))


def _candidates(central: _Machines, decisions: Sequence[Layout], can_run: CanRun) -> Iterator[ProposedRun]:
    """Runs of what the decisions deploy: by GPU type and phase the configurations that most of their GPUs have."""
    used: Counter[_Configuration] = Counter()
    for decision in decisions:
        for island, count in decision.counts:
            (role,) = island.role
            used[island.gpu, role.phase, replace(role.parallel, replicas=1)] += count * island.size
    for kind in sorted({(gpu, phase) for gpu, phase, _ in used}):
        configurations = sorted((key for key in used if key[:2] == kind), key=lambda key: (-used[key], key))
        proposed = (_proposed(central, configuration) for configuration in configurations)
        yield from islice((run for run in proposed if run is not None and can_run(run)), CONFIGURATIONS)


def _configuration(run: ProposedRun) -> _Configuration:
    return run.gpu, run.phase, run.parallel


def _nearest(bench: PhasePerformance, workload: Workload) -> int | None:
    """The range nearest to the mean prompt that is served."""
    served = [j for j, rate in enumerate(bench.rates_rps) if rate > 0]
    mean = workload.mean_input_tokens
    return min(served, key=lambda j: abs(workload.ranges[j].mean_input_tokens - mean), default=None)


def _proposed(central: _Machines, configuration: _Configuration) -> ProposedRun | None:
    """The run of a configuration, by the factors in force; None where one copy by itself serves no range."""
    gpu, phase, parallel = configuration
    bench, workload = central.on_bench(configuration), central.workload
    j = _nearest(bench, workload)
    if j is None:
        return None
    span = workload.ranges[j]
    answer = workload.mean_output_tokens if span.mean_output_tokens is None else span.mean_output_tokens
    prefills = phase is Phase.PREFILL
    batch = max(1, bench.batch_sizes[j])
    longest = central.scenario.model.max_context - 1
    tokens_in, tokens_out = _lengths(phase, span.mean_input_tokens, answer, longest)
    concurrency = batch * parallel.dp * (2 if prefills else 1)  # prompts wait for the step after this one
    return ProposedRun(
        gpu=gpu,
        phase=phase,
        parallel=parallel,
        batch_size=batch,
        input_tokens=tokens_in,
        output_tokens=tokens_out,
        concurrency=concurrency,
        requests=concurrency * (16 if prefills else 4),  # beginning and end are not of the loop
        predicted_tokens_per_s=bench.rates_rps[j] * (span.mean_input_tokens if prefills else answer),
        spread=0.0,  # and what it is worth: of the draws
        reduction_rps=0.0,
    )


def _lengths(phase: Phase, prompt: float, answer: float, longest: int) -> tuple[int, int]:
    """Tokens in and out of a run that is nearly all of one phase: prompts as they are and one token, or short prompts
    whose answers have the same mean context."""
    if phase is Phase.PREFILL:
        return min(longest - 1, round(prompt)), 1
    context = prompt + answer / 2
    tokens_in = min(max(LEAST_PROMPT, round(context / PROMPT_SHARE)), longest // 2)
    return tokens_in, max(1, min(round(2 * (context - tokens_in)), longest - tokens_in))
