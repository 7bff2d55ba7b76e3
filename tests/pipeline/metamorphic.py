"""Scenarios drawn by seed, and what may not make their plans worse: more GPUs, looser levels, types in other order."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from random import Random
from typing import Any

from pipeline_scenarios import bucketed

from planner.domain import ServingForm, worth_of
from planner.errors import InfeasibleError
from planner.evaluation.evaluator import Evaluator
from planner.proposing.buckets.pools import solve_buckets
from planner.workload import question_of

GAP = 0.005
HOST = 8
PRICES = {"H20": 1.5, "H200": 3.5, "H800": 2.5, "H100": 2.6, "A100": 1.6, "L40S": 1.0}
MODELS = ("qwen3-30b-a3b", "llama-3.1-70b", "gpt-oss-120b")
Fleet = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Draw:
    """A question: GPUs by type in their order, levels (ms; 0: none), and how much is asked for (`budget` USD/hour or
    `target` requests/s; 0: the most that all serve). `dearer`: all prices times this."""

    fleet: Fleet
    model: str
    workload: str
    serving: str
    ttft_ms: float = 0.0
    tpot_ms: float = 0.0
    percentile: int = 99
    buckets: int = 1
    budget: float = 0.0
    target: float = 0.0
    dearer: float = 1.0

    def document(self) -> dict[str, Any]:
        """What the scenario says beside its inventory."""
        document: dict[str, Any] = {
            "model": self.model,
            "workload": self.workload,
            "serving": self.serving,
            "ranges": {"width": 4096},
            "routing": {"most": self.buckets},
            "search": {"timings": False, "gap": GAP},
            "simplicity": 0,
            "prices_usd_per_gpu_hour": {gpu: PRICES[gpu] * self.dearer for gpu, _ in self.fleet},
        }
        if self.ttft_ms:
            document["slo"] = {"ttft_ms": self.ttft_ms, "tpot_ms": self.tpot_ms, "percentile": self.percentile}
        if self.budget:
            document["objective"] = {"kind": "budget", "budget_usd_per_hour": self.budget * self.dearer}
        if self.target:
            document["objective"] = {"kind": "target", "target_rps": self.target}
        return document


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a plan is worth, the more the better: requests/s, or its rent at the undrawn prices below 0; and its bound.
    Where the form of serving is free, as the rule that chooses it counts: less what split pools must win by. `served`:
    the same as it is, whatever the form. A question without a plan is worth nothing."""

    value: float
    bound: float
    served: float
    form: ServingForm


@lru_cache(maxsize=64)
def outcome(draw: Draw) -> Outcome:
    """The plan's worth."""
    question = question_of(bucketed(dict(draw.fleet), **draw.document()))
    sign, scale = (-1.0, draw.dearer) if draw.target else (1.0, 1.0)
    try:
        choice = solve_buckets(Evaluator(question))
    except InfeasibleError:
        nothing = -float("inf") if draw.target else 0.0
        return Outcome(value=nothing, bound=nothing, served=nothing, form=ServingForm.SPLIT)
    served, forms = choice.priced.rate_rps, choice.forms
    if draw.target:
        served = sum(pool.gpus * PRICES[pool.gpu] for pool in choice.priced.pools)
    if forms is None:
        asked = ServingForm(draw.serving)
        return Outcome(value=sign * served, bound=sign * choice.bound / scale, served=sign * served, form=asked)
    worth = partial(worth_of, minimises=bool(draw.target))
    bounds = [worth(forms.own_bound, forms.chosen)]
    bounds += [] if forms.other_bound is None else [worth(forms.other_bound, forms.other)]
    return Outcome(
        value=sign * worth(served, forms.chosen),
        bound=max(sign * bound / scale for bound in bounds),
        served=sign * served,
        form=forms.chosen,
    )


def together(outcomes: Sequence[Outcome]) -> float:
    """What fleets are worth together at least: as they serve apart, all of them counted as split where any is; or one
    of them alone."""
    forms = {each.form for each in outcomes}
    served = sum(each.served for each in outcomes)
    if len(forms) == 1:
        return sum(each.value for each in outcomes)
    return max(worth_of(served, ServingForm.SPLIT), *(each.value for each in outcomes))


def drawn(seed: int) -> Draw:
    """One or two types of 8 to 24 GPUs each; in seven of ten levels, in three of ten a budget or a target."""
    random = Random(seed)
    types = random.sample(sorted(PRICES), random.choice((1, 2, 2)))
    fleet = tuple((gpu, HOST * random.randint(1, 3)) for gpu in types)
    draw = Draw(
        fleet=fleet,
        model=random.choice(MODELS),
        workload=random.choice(("azure-code-2023", "azure-conv-2023")),
        serving=random.choice(("split", "aggregated", "auto")),
        buckets=random.choice((1, 1, 2)),
    )
    if random.random() < 0.7:
        draw = replace(
            draw,
            ttft_ms=random.choice((1500.0, 3000.0, 6000.0)),
            tpot_ms=random.choice((30.0, 45.0, 60.0)),
            percentile=random.choice((90, 95, 99)),
        )
    kind = random.random()
    if kind < 0.15:
        return replace(draw, budget=0.6 * sum(PRICES[gpu] * count for gpu, count in fleet))
    if kind < 0.3:
        return replace(draw, target=0.5 * outcome(draw).served)
    return draw


def _other_type(draw: Draw) -> str:
    return next(gpu for gpu in ("H200", "H20", "A100") if gpu not in dict(draw.fleet))


def _more_gpus(draw: Draw) -> Draw:
    (first, count), *others = draw.fleet
    return replace(draw, fleet=((first, count + HOST), *others))


def _copies(draw: Draw, number: int) -> Draw:
    fleet = tuple((gpu, number * count) for gpu, count in draw.fleet)
    return replace(draw, fleet=fleet, budget=number * draw.budget, target=number * draw.target)


LEVELS: dict[str, Callable[[Draw], Draw]] = {
    "looser TTFT": lambda draw: replace(draw, ttft_ms=1.3 * draw.ttft_ms),
    "looser TPOT": lambda draw: replace(draw, tpot_ms=1.2 * draw.tpot_ms),
    "a lower percentile": lambda draw: replace(draw, percentile=draw.percentile - 4),
    "no levels": lambda draw: replace(draw, ttft_ms=0.0),
}
CHANGES: dict[str, Callable[[Draw], Draw]] = {
    "more GPUs": _more_gpus,
    "a type more": lambda draw: replace(draw, fleet=(*draw.fleet, (_other_type(draw), HOST))),
    "another bucket": lambda draw: replace(draw, buckets=draw.buckets + 1),
    **LEVELS,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """`better` must be worth at least `least`, less the gap, and its bound no less."""

    name: str
    draw: Draw
    least: float
    better: Outcome

    @property
    def lost(self) -> float:
        """Share by which the better one is worse."""
        if self.least in (0.0, -float("inf")):
            return 0.0
        return (self.least - self.better.value) / abs(self.least)

    @property
    def holds(self) -> bool:
        """Never worse beyond the gap; a bound never below what is reached."""
        reached = max(self.least, self.better.value)
        return self.lost <= GAP and not self.better.bound < reached - 1e-5 * abs(reached)


def checks(seed: int) -> Iterator[Check]:
    """Every change of a drawn scenario, and what further changes make of the changed ones."""
    draw = drawn(seed)
    value = outcome(draw).value
    changed = {name: outcome(change(draw)) for name, change in CHANGES.items() if draw.ttft_ms or name not in LEVELS}
    for name, better in changed.items():
        yield Check(name=name, draw=draw, least=value, better=better)
    for name in [name for name in LEVELS if name in changed and name != "no levels"]:
        yield Check(name=f"{name}, then none", draw=draw, least=changed[name].value, better=changed["no levels"])
    copies = [outcome(_copies(draw, number)) for number in (1, 2, 3)]
    for number, better in enumerate(copies[1:], 2):
        yield Check(name=f"{number} copies", draw=draw, least=number * value, better=better)
    if not draw.target:
        yield Check(name="a copy beside two", draw=draw, least=together(copies[:2]), better=copies[2])
    dearer = outcome(replace(draw, dearer=7.0))
    yield Check(name="prices times 7", draw=draw, least=value, better=dearer)
    yield Check(name="prices over 7", draw=draw, least=dearer.value, better=outcome(draw))
    if len(draw.fleet) > 1:
        turned = outcome(replace(draw, fleet=draw.fleet[::-1]))
        yield Check(name="types in another order", draw=draw, least=value, better=turned)
        yield Check(name="types in their order", draw=draw, least=turned.value, better=outcome(draw))
    if len(draw.fleet) > 1 and not draw.budget and not draw.target:
        alone = together([outcome(replace(draw, fleet=(item,))) for item in draw.fleet])
        yield Check(name="two fleets together", draw=draw, least=alone, better=outcome(draw))
