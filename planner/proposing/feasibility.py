"""Whether a scenario can have a plan at all, told before the search; and why not, in words."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import pairwise

from planner.cost import FIRST_STEP_MS, PLACE_SHARE, Closest, closest, smallest_island
from planner.cost.reference.steps import shape_of
from planner.domain import PHASES, CostMode, IslandClass, LengthRange, Phase, Plan, Question, Scenario, SloSettings
from planner.domain.service import range_bounds
from planner.errors import InfeasibleError, InputError, PlannerError, SolverError
from planner.evaluation.evaluator import Evaluator
from planner.workload import question_of

LARGEST_SOUGHT_ISLAND = 512
SECONDS_BELOW = 60.0
"""A TTFT of fewer ms than this was probably meant in seconds."""
MOST_RANGES = 1000
LOOSEN = "Loosen the bound, leave these prompts out, or add GPUs that reach it."
_SIZES_BEFORE_PIECE = (1, 16, *range(64, LARGEST_SOUGHT_ISLAND, 64))

SAME_RATE = 1e-4
"""Relative difference of rates that is the solver's gap."""


def posed(scenario: Scenario) -> Question:
    """The question that a scenario poses. Raises as `require_context` and `require_few_ranges` do."""
    require_context(scenario)
    question = question_of(scenario)
    require_few_ranges(question)
    return question


def require_context(scenario: Scenario) -> None:
    """Raises InputError where the cost mode has no formulas for the model or its service levels, the levels contradict
    themselves, or the model does not take the prompts."""
    _require_sound_slo(scenario)
    if scenario.cost.mode is CostMode.REFERENCE:
        shape_of(scenario.model)
    workload, context = scenario.workload, scenario.model.max_context
    longest = workload.input_tokens[-1]
    if longest >= context:
        lengths = zip(workload.input_tokens, workload.probabilities, strict=True)
        share = sum(probability for tokens, probability in lengths if tokens >= context)
        raise InputError(
            f"scenario {scenario.name}: workload {workload.name}: prompts must be shorter than the context of "
            f"{scenario.model.name}, {context} tokens; the longest has {longest}, "
            f"{100 * share:.2g} % of them are too long.",
            hint=f"Leave such requests out of the trace (`planner workload summarize trace.csv --drop over:{context} "
            f"--out trace.yaml`, in a scenario `workload: {{kind: trace, file: trace.csv, drop: [over:{context}]}}`), "
            "or choose a model with a longer context.",
        )


def _require_sound_slo(scenario: Scenario) -> None:
    slo = scenario.slo
    if not slo.bounds_anything:
        return
    if scenario.cost.mode is CostMode.REFERENCE:
        raise InputError(
            f"scenario {scenario.name}: slo: must be left out where cost.mode is reference, which knows no service "
            "levels, got a bound.",
            hint="Set cost.mode to default, or leave slo out.",
        )
    # bounds change at the edges of slo.ranges alone, so those and 0 show every pair of them
    for start in sorted({0, *(edge for limits in slo.ranges for edge in (limits.start, limits.end))}):
        ttft, tpot = slo.bounds(start)
        if ttft is not None and tpot is not None and ttft <= tpot:
            raise InputError(
                f"scenario {scenario.name}: slo.ttft_ms must exceed slo.tpot_ms, the first token takes a decode step, "
                f"too, got {ttft:g} and {tpot:g} ms for prompts from {start} tokens.",
                hint="Raise slo.ttft_ms, or lower slo.tpot_ms."
                + (f" A bound of {ttft:g} s is ttft_ms: {1000 * ttft:g}." if ttft < SECONDS_BELOW else ""),
            )


def require_few_ranges(question: Question) -> None:
    """Raises InputError where the ranges are so many that assigning them would take minutes a layout."""
    scenario, workload = question.scenario, question.workload
    if len(workload.ranges) > MOST_RANGES:
        raise InputError(
            f"scenario {scenario.name}: ranges.width: must give at most {MOST_RANGES} ranges, {scenario.ranges.width} "
            f"gives {len(workload.ranges)}.",
            hint=f"Choose a width of at least {workload.longest_prompt // MOST_RANGES + 1}.",
        )


def require_room(evaluator: Evaluator) -> None:
    """Raises InfeasibleError where some range fits on no island of the inventory, or none serves it within its bounds,
    whatever the layout."""
    question = evaluator.question
    scenario, workload = question.scenario, question.workload
    missing = {(phase, j) for phase in PHASES for j in range(len(workload.ranges))}
    for item in scenario.inventory.items:
        # one island of a type often serves all: the largest is looked at alone, and the look ends with the first that
        # do
        for islands in _downward(item.gpu.name, min(item.count, LARGEST_SOUGHT_ISLAND)):
            evaluator.tabulate(islands)
            for island in islands:
                row = evaluator.row(island)
                missing -= {(phase, j) for phase, j in missing if row.phase(phase).rates_rps[j] > 0}
            if not missing:
                return
    if verdicts := unreachable_bounds(question, missing):
        raise InfeasibleError(f"scenario {scenario.name}: {'; '.join(verdicts)}.", hint=LOOSEN)
    # the longest prompts are told: what serves them mostly serves the shorter ones
    phase, j = max(sorted(missing), key=lambda cell: cell[1])
    raise InfeasibleError(
        f"scenario {scenario.name}: inventory: {_model(scenario)} cannot be served by these GPUs: no island of theirs "
        f"can {phase} prompts of {workload.ranges[j].label} tokens. {_needs(question)}",
        hint="Prefill and decode need an island each: add GPUs, choose a type with more memory or a smaller model, "
        "or leave the longest prompts out.",
    )


def _downward(gpu: str, largest: int) -> Iterator[list[IslandClass]]:
    """Every size from the largest, which mostly serves all, in pieces that grow."""
    # a piece is tabulated in one go, so pieces grow: few sizes where the first will do, few calls where none does
    firsts = [largest, *(largest - n for n in _SIZES_BEFORE_PIECE if n < largest), 0]
    for first, after in pairwise(firsts):
        yield [IslandClass(gpu=gpu, size=size) for size in range(first, after, -1)]


def nothing_found(question: Question, errors: list[str], unanswered: int) -> PlannerError:
    """The end of a search that found no layout that serves; `errors` are its trials'.

    A SolverError where the solver left some of them unanswered: then nothing is proven.
    """
    scenario = question.scenario
    # of errors as frequent the last by name, so that equal searches end in equal words
    often = max(set(errors), key=lambda error: (errors.count(error), error))
    if unanswered:
        return SolverError(
            f"scenario {scenario.name}: assignment: the solver left {unanswered} of {len(errors)} layouts unanswered "
            f"and no other serves the workload; most often: {often}",
            hint="Raise assignment.work_limit or assignment.gap.",
        )
    return InfeasibleError(
        f"scenario {scenario.name}: search: none of the {len(errors)} layouts tried serves every range in both phases "
        f"with {_model(scenario)}{_under(scenario)}; most often: {often} {_needs(question)}",
        hint="Prefill and decode need an island each. Where there are GPUs enough, raise search.iterations, "
        "search.batch_size or search.min_island_size; else add GPUs"
        + (", or loosen slo." if scenario.slo.bounds_anything else "."),
    )


def _under(scenario: Scenario) -> str:
    """The bounds that the layouts had to keep to, in words."""
    slo = scenario.slo
    general = (("ttft_ms", slo.ttft_ms), ("tpot_ms", slo.tpot_ms))
    bounds = [f"slo.{key} {bound:g} ms" for key, bound in general if bound is not None]
    bounds += ["slo.ranges"] if slo.ranges else []
    return f" under {', '.join(bounds)}{statistic(scenario.slo)}" if bounds else ""


def _model(scenario: Scenario) -> str:
    return f"{scenario.model.name} ({scenario.model.weights_gb:.0f} GB of weights)"


def _needs(question: Question) -> str:
    """GPUs that one island needs to serve every range, per type and phase."""
    return f"GPUs that one island needs, by type: {'; '.join(_type_needs(question))}."


def _type_needs(question: Question) -> list[str]:
    scenario, texts = question.scenario, []
    for item in scenario.inventory.items:
        phases = []
        for phase in PHASES:
            need = smallest_island(
                item.gpu,
                phase,
                model=scenario.model,
                workload=question.workload,
                settings=scenario.cost,
                slo=scenario.slo,
            )
            phases.append(f"at least {need} to {phase}" if need else f"more than any island offers to {phase}")
        texts.append(f"{item.gpu.name} (the inventory has {item.count}): {' and '.join(phases)}")
    return texts


@dataclass(frozen=True, slots=True, kw_only=True)
class _Missed:
    """One range whose bound is out of reach: `best` takes `best_ms` in all."""

    span: LengthRange
    bound_ms: float
    best_ms: float
    best: Closest
    count: int


def unreachable_bounds(question: Question, missing: Collection[tuple[Phase, int]]) -> list[str]:
    """A sentence per phase on the range that misses its bound by most, of the (phase, range) cells `missing`.

    Empty where no bound is to blame.
    """
    scenario = question.scenario
    if not scenario.slo.bounds_anything:
        return []
    verdicts = []
    for phase in PHASES:
        misses = _missed(question, phase, sorted(j for of, j in missing if of is phase))
        if misses:
            worst = max(misses, key=lambda miss: miss.best_ms / miss.bound_ms)
            verdicts.append(_tpot(scenario, worst) if phase is Phase.DECODE else _ttft(scenario, worst))
    return verdicts


def statistic(slo: SloSettings) -> str:
    """What the bounds hold for, in brackets."""
    return " (mean)" if slo.percentile is None else f" (P{slo.percentile:g})"


def _missed(question: Question, phase: Phase, ranges: list[int]) -> list[_Missed]:
    if not ranges:
        return []
    scenario = question.scenario
    best: dict[int, tuple[Closest, int]] = {}
    for item in scenario.inventory.items:
        rows = closest(
            item.gpu,
            item.count,
            phase,
            model=scenario.model,
            workload=question.workload,
            settings=scenario.cost,
            slo=scenario.slo,
        )
        for j in ranges:
            row = rows[j]
            if row is not None and (j not in best or row.ms < best[j][0].ms):
                best[j] = row, item.count
    misses = []
    for j, (row, count) in best.items():
        span = question.workload.ranges[j]
        ttft, tpot = range_bounds(scenario.slo, span)
        bound = tpot if phase is Phase.DECODE else ttft
        reached = row.ms if phase is Phase.DECODE else _whole_ttft(scenario, row, tpot)
        if bound is not None and reached > bound:
            misses.append(_Missed(span=span, bound_ms=bound, best_ms=reached, best=row, count=count))
    return misses


def _whole_ttft(scenario: Scenario, row: Closest, tpot: float | None) -> float:
    """TTFT on an idle replica, with what is set aside for the decode side (ms)."""
    # bounds of the mean set a share of themselves aside for the wait for a place, which a percentile's bound does not
    alone = row.ms + (FIRST_STEP_MS if tpot is None else tpot)
    return alone if scenario.slo.percentile is not None else alone / (1 - PLACE_SHARE)


def _tpot(scenario: Scenario, missed: _Missed) -> str:
    return f"{_not_reachable(scenario, missed, 'tpot_ms')}{_at(missed)}"


def _ttft(scenario: Scenario, missed: _Missed) -> str:
    tpot = range_bounds(scenario.slo, missed.span)[1]
    first = FIRST_STEP_MS if tpot is None else tpot
    whose = "assumed, slo.tpot_ms is not set" if tpot is None else "slo.tpot_ms"
    parts = [f"prefill {missed.best.ms - missed.best.transfer_ms:.1f} ms"]
    parts += [f"KV transfer {missed.best.transfer_ms:.1f} ms", f"first decode step {first:g} ms ({whose})"]
    if scenario.slo.percentile is None:
        parts.append(f"wait for a place in decode {missed.best_ms * PLACE_SHARE:.1f} ms")
    conflict = ""
    if tpot is not None and missed.best.ms <= missed.bound_ms:
        conflict = " (it conflicts with slo.tpot_ms: together they leave no time)"
    return (
        f"{_not_reachable(scenario, missed, 'ttft_ms')}{_at(missed)}, without any queue: {', '.join(parts)}{conflict}"
    )


def _not_reachable(scenario: Scenario, missed: _Missed, key: str) -> str:
    place = f"slo.{key}" if getattr(scenario.slo, key) == missed.bound_ms else f"slo.ranges: {key}"
    shape = missed.best.parallel
    stages = f", pp {shape.pp}" if shape.pp > 1 else ""
    return (
        f"{place}: {missed.bound_ms:g} ms{statistic(scenario.slo)} is not reachable for prompts of "
        f"{missed.span.label} tokens; best {missed.best_ms:.1f} ms on {missed.best.gpu} "
        f"({shape.devices} GPUs, tp {shape.tp}{stages}, batch {missed.best.batch})"
    )


def _at(missed: _Missed) -> str:
    """What all islands of that kind would serve of such prompts."""
    islands = missed.count // missed.best.parallel.devices
    return f", at {islands * missed.best.rate_rps:.3g} requests/s from {missed.count} {missed.best.gpu}"


def require_saved_rate(saved: Plan, rate_rps: float, source: str) -> None:
    """What is placed serves what the plan showed before it lay anywhere.

    A placed plan holds only what found room: what was left out cannot be placed from it on another cluster.
    """
    # a placed plan's own rate is of where it lay; what it was placed from has to come out again
    was = saved.throughput_rps if saved.placement is None else saved.placement.unplaced_rps
    if abs(rate_rps - was) <= SAME_RATE * was:
        return
    lost = saved.placement is not None and rate_rps < was
    raise InputError(
        f"plan {saved.scenario.name}: throughput_rps must be what its {source}, {rate_rps:.6g} requests/s, got "
        f"{was:.6g}.",
        hint="Servers or islands of it found no room when it was placed, and are not in it any more: place the plan as "
        "it was before that, or plan again, with the cluster in the scenario."
        if lost
        else "It was made by another version or edited: plan again, with the cluster in the scenario.",
    )


def require_target(scenario: Scenario, placed_rps: float) -> None:
    """Raises InfeasibleError where the rate on nodes misses the target by more than the solver's gap."""
    target = scenario.objective.target_rps
    # the programme met the target to the solver's gap, no nearer
    if placed_rps < target * (1 - SAME_RATE):
        raise InfeasibleError(
            f"scenario {scenario.name}: objective.target_rps: {target:g} requests/s are not reached on cluster "
            f"{scenario.cluster.name if scenario.cluster else ''}: the cheapest layout serves {placed_rps:.1f} there.",
            hint="Lower the target, raise it to leave room for placement, or offer a cluster with more room.",
        )
