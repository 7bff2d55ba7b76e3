"""Layouts for bounds on TTFT: the layout programme with the share of its time that each role's queue lets it work.

The plain programme knows each range alone. Its bound holds, for queues only ever cost; its layout may serve next to
nothing, where an island has to work on a range that can hardly wait. Here the options are roles, each with its share in
the workload's own mixture. Where the layout found is served slower than that promised, the shares of its roles come
down to what their queues admitted, and it is solved again; shares only fall and rounds are few, so it ends.

| symbol | meaning | unit |
|---|---|---|
| P, D | rate of all islands of a type, did they nothing but prefill, or decode, the whole mix | requests/s |
| f | share of a type's islands that prefill | 1 |

A simple layout (one kind of island per GPU type, or islands of one type alone) promises max over f of
min(sum f P, sum (1 - f) D): types with the largest P / D prefill first. It is a guess to choose by, not a bound:
islands told apart by length serve more.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import product

from planner.assignment import IslandKind, Offer, best_layout, fractional_rps
from planner.domain import (
    AssignmentSettings,
    Evaluation,
    IslandClass,
    Layout,
    ObjectiveSettings,
    Phase,
    Scenario,
    SizeSet,
)
from planner.errors import InfeasibleError, SolverError
from planner.evaluation.evaluator import Evaluator
from planner.evaluation.goodput import admitted, bounds_ttft
from planner.evaluation.roles import kinds_of
from planner.proposing.certificate import layout_settings, objective_value, offer_of, single

MOST_SIZES = 5
"""Sizes of a type that are combined with those of the others, of each phase."""

MOST_MIXED = 4
"""Layouts of all types that are worth judging, those of most promise."""

TINY = 1e-12


MOST_ROUNDS = 3
MET = 1e-3  # relative: a target counts as met
NEARLY = 0.99
"""Of what the programme promised: more is not worth another round."""


def best_with_queues(scenario: Scenario, evaluator: Evaluator, solved: Layout, wanted_rps: float = 0.0) -> Layout:
    """`solved` by the plain programme, or where queues count the one that serves best of it and those found here.

    A layout that serves `wanted_rps` is better than any that does not.
    """
    # without a bound on TTFT no queue costs anything, and the plain programme sees all
    if not bounds_ttft(scenario.slo):
        return solved
    objective, settings = single(scenario.objective), layout_settings(scenario)
    judged = [evaluator.evaluate(solved.plain)]
    offer = offer_of(scenario, evaluator, scenario.search.sizes)
    judged += layouts_with_queues(offer, evaluator, objective, settings)
    if scenario.search.sizes is SizeSet.ALL:  # the best of all sizes, did nothing wait, may wait longer than these
        whole_nodes = offer_of(scenario, evaluator, SizeSet.WHOLE_NODES)
        with suppress(InfeasibleError, SolverError):
            judged.append(evaluator.evaluate(best_layout(whole_nodes, objective, settings).layout.plain))
        judged += layouts_with_queues(whole_nodes, evaluator, objective, settings)
    return max(judged, key=lambda evaluation: _merit(scenario, evaluation, wanted_rps)).layout


def _merit(scenario: Scenario, judged: Evaluation, wanted_rps: float) -> tuple[bool, float]:
    """Whether the target is met, and how good the layout then is; the rate where it is not."""
    rate = judged.throughput_rps
    # a layout that misses the target is worth its rate alone, and less than any that meets it
    if not rate > 0 or rate < wanted_rps * (1 - MET):
        return False, rate
    value = objective_value(scenario, judged.layout, rate)
    return True, -value if scenario.objective.minimises else value


def layouts_with_queues(
    offer: Offer, evaluator: Evaluator, objective: ObjectiveSettings, settings: AssignmentSettings
) -> list[Evaluation]:
    """Layouts of `offer` for `objective` that the programme with queues finds, as they are judged; for the rate of an
    inventory also simple ones, which none should lose to."""
    question = evaluator.question
    slo, load = question.scenario.slo, question.workload
    roles = (kinds_of(rows, load.ranges, slo, load.mean_output_tokens) for rows in offer.options)
    offer = replace(offer, roles=tuple(roles))
    judged = _solved(offer, evaluator, objective, settings)
    # simple layouts use the whole inventory: where GPUs are chosen they say nothing
    if objective.kind.row.plain:
        for layout in simple_layouts(offer):
            best = max((evaluation.throughput_rps for evaluation in judged), default=0.0)
            # what fractions of islands could not beat, whole ones do not: judging it is saved
            if _promised_rps(offer, layout, question.scenario.assignment) > best:
                judged.append(evaluator.evaluate(layout))
    return judged


def _promised_rps(offer: Offer, layout: Layout, settings: AssignmentSettings) -> float:
    """What a layout would serve in roles, were islands divisible; 0 where it is not to be had."""
    kinds = [kind for of_type in offer.roles for kind in of_type]
    try:
        return fractional_rps(kinds, layout, offer.probabilities, settings)
    except (InfeasibleError, SolverError):
        return 0.0


def _solved(
    offer: Offer, evaluator: Evaluator, objective: ObjectiveSettings, settings: AssignmentSettings
) -> list[Evaluation]:
    """The programme's answers, with the shares of each come down to what queues admitted in the one before."""
    slo, tokens = evaluator.question.scenario.slo, evaluator.question.workload.mean_output_tokens
    judged: list[Evaluation] = []
    for _ in range(MOST_ROUNDS):
        try:
            answer = best_layout(offer, objective, settings, few=True)
        except (InfeasibleError, SolverError):
            break
        evaluation = evaluator.evaluate(answer.layout.plain)
        judged.append(evaluation)
        # queues cost next to nothing of what was promised: lower shares would find the same
        if evaluation.assignment is None or evaluation.throughput_rps >= NEARLY * answer.rate_rps:
            break
        table = evaluator.table(evaluation.layout)
        lowered = _lowered(offer, admitted(evaluation.assignment, table, slo, tokens))
        if lowered == offer:
            break
        offer = lowered
    return judged


def _lowered(offer: Offer, shares: Mapping[tuple[IslandClass, Phase], float]) -> Offer:
    """The offer in which no role works more than its queue admitted."""
    return replace(
        offer,
        roles=tuple(
            tuple(
                replace(kind, share=min(kind.share, shares.get((kind.island, kind.phase), kind.share)))
                for kind in kinds
            )
            for kinds in offer.roles
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Uniform:
    """All islands of one type, of one size."""

    island: IslandClass
    count: int
    prefill_rps: float
    decode_rps: float


def simple_layouts(offer: Offer) -> list[Layout]:
    """The most promising simple layouts of an offer whose `roles` are known, best first."""
    by_type = [
        list(_uniform(kinds, gpus, offer.probabilities)) for kinds, gpus in zip(offer.roles, offer.counts, strict=True)
    ]
    # one type alone may beat all of them where another only makes prompts wait
    alone = [(max(sizes, key=lambda uniform: _promise([uniform])),) for sizes in by_type if sizes]
    mixed = sorted(product(*(_few(sizes) for sizes in by_type if sizes)), key=_promise, reverse=True)
    chosen = sorted([*mixed[:MOST_MIXED], *alone], key=_promise, reverse=True)
    layouts = (
        Layout.of(uniform.island for uniform in each for _ in range(uniform.count))
        for each in chosen
        if _promise(each) > 0
    )
    return list(dict.fromkeys(layouts))


def _uniform(kinds: Sequence[IslandKind], gpus: int, probabilities: Sequence[float]) -> Iterator[_Uniform]:
    """All GPUs of a type in islands of one size, for each size."""
    best: dict[tuple[IslandClass, Phase], float] = {}
    for kind in kinds:
        key = (kind.island.plain, kind.phase)
        best[key] = max(best.get(key, 0.0), _mix_rps(kind, probabilities))
    for island in sorted({island for island, _ in best}):
        # what is left over forms no island of the size, and is not counted
        count = gpus // island.size
        yield _Uniform(
            island=island,
            count=count,
            prefill_rps=count * best.get((island, Phase.PREFILL), 0.0),
            decode_rps=count * best.get((island, Phase.DECODE), 0.0),
        )


def _mix_rps(kind: IslandKind, probabilities: Sequence[float]) -> float:
    """Rate of one island on the whole mix; 0 where it does not serve all of it."""
    rates = kind.shared_rps
    return 1 / sum(p / rate for p, rate in zip(probabilities, rates, strict=True)) if min(rates) > 0 else 0.0


def _few(sizes: Sequence[_Uniform]) -> list[_Uniform]:
    """The sizes that prefill or decode fastest."""
    prefill = sorted(sizes, key=lambda uniform: -uniform.prefill_rps)[:MOST_SIZES]
    decode = sorted(sizes, key=lambda uniform: -uniform.decode_rps)[:MOST_SIZES]
    return list({uniform.island: uniform for uniform in (*prefill, *decode)}.values())


def _promise(each: Sequence[_Uniform]) -> float:
    """max over f of min(sum f P, sum (1 - f) D), fractions of islands allowed."""
    first = sorted(each, key=lambda uniform: uniform.prefill_rps / max(uniform.decode_rps, TINY), reverse=True)
    prefill, decode = 0.0, sum(uniform.decode_rps for uniform in first)
    for uniform in first:
        if prefill + uniform.prefill_rps >= decode - uniform.decode_rps:
            both = uniform.prefill_rps + uniform.decode_rps
            # this type is cut: so much of it prefills that both phases serve alike
            share = (decode - prefill) / both if both > 0 else 0.0
            return prefill + share * uniform.prefill_rps
        prefill += uniform.prefill_rps
        decode -= uniform.decode_rps
    return min(prefill, decode)
