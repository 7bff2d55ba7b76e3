"""Which reading of the thesis comes nearest to its published figures.

| symbol | meaning |
|---|---|
| p_k, o_k | a published figure, and ours |
| L | sqrt(mean over k of ln(o_k / p_k)^2); exp(L) is the usual factor between ours and the published ones |

First a middle reading, then each of its choices changed alone: the nearest value of each is kept, except of `absence`,
where section 6.3 decides, by which Baseline's misses rise in spikes: they do so with `each` alone. Then the constants,
on STEPS values each: BY_CHANCE draws, all others where Ax expects most improvement of L. At last the nearest one's
constants are moved one by one, as long as that comes nearer: most touch one policy alone, which no model of L knows.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np

from planner.studies.serving.page import means_of
from planner.studies.serving.reconciled.readings import (
    CALIBRATED,
    PUBLISHED,
    SCOPES,
    Choices,
    Scope,
    law_of,
    settings_of,
)
from planner.studies.serving.records import Absence, ServingPool, VictimOrder
from planner.studies.serving.study import ServingStudy, requests_of_seed, run_serving_seed
from planner.studies.serving.warsaw import MACHINES, dnn_models, machines

STEPS = 17
BY_CHANCE = 12
AT_ONCE = 2
"""Constants that are proposed from one model."""

LOWEST = 1e-3
"""A figure of nothing counts as this much."""

_STEPS_IN_THE_MIDDLE = (8, 10, 3, 3, 9, 3, 6, 8)
MIDDLE: Mapping[str, int] = MappingProxyType(
    {scope.name: step for scope, step in zip(SCOPES, _STEPS_IN_THE_MIDDLE, strict=True)}
)
"""Steps with which the choices are compared."""

ALTERNATIVES: tuple[tuple[str, tuple[object, ...]], ...] = (
    ("absence", tuple(Absence)),
    ("victims", tuple(VictimOrder)),
    ("spikes", (1, 2, 3)),
    ("quanta_first", (True, False)),
    ("bounded", (True, False)),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """A reading that was run. `stage`: how it came up; `steps`: of its constants; `figures`: as PUBLISHED has them."""

    stage: str
    choices: Choices
    steps: Mapping[str, int]
    figures: tuple[float, ...]

    @property
    def distance(self) -> float:
        """L."""
        return distance(self.figures)


def distance(figures: Sequence[float]) -> float:
    """L of figures in the order of PUBLISHED."""
    logs = [math.log(max(ours, LOWEST) / row.value) for ours, row in zip(figures, PUBLISHED, strict=True)]
    return math.sqrt(sum(log**2 for log in logs) / len(logs))


def constants_at(steps: Mapping[str, int]) -> dict[str, float]:
    """Constants at these steps of their scopes, to three digits."""
    return {scope.name: _at(scope, steps[scope.name]) for scope in SCOPES}


def _at(scope: Scope, step: int) -> float:
    share = step / (STEPS - 1)
    if scope.by_ratio:
        value = scope.low * (scope.high / scope.low) ** share
    else:
        value = scope.low + (scope.high - scope.low) * share
    return float(f"{value:.3g}")


def calibrate(
    trials: int, seed: int, *, scale: float = 1.0, listen: Callable[[Attempt], None] = lambda _: None
) -> Iterator[Attempt]:
    """Every reading that is run: the choices one at a time, then so many `trials` of the constants.

    `seed` is that of arrivals and SLAs, and of the search; `scale`: so many times the thesis' requests.
    """
    screened: list[Attempt] = []
    for choices in _screen():
        screened.append(run_reading("screen", choices, MIDDLE, seed, scale))
        listen(screened[-1])
        yield screened[-1]
    best = nearest_choices(screened)
    draws = np.random.default_rng([seed, 5])
    judged: list[Attempt] = []
    while len(judged) < trials:
        for stage, steps in _next(judged, draws)[: trials - len(judged)]:
            judged.append(run_reading(stage, best, steps, seed, scale))
            listen(judged[-1])
            yield judged[-1]
    for name, way in _ways() if trials > BY_CHANCE else ():
        while (moved := _moved(judged, name, way)) is not None:
            before = nearest_of(judged)
            judged.append(run_reading("one by one", best, moved, seed, scale))
            listen(judged[-1])
            yield judged[-1]
            if nearest_of(judged) is before:
                break


def nearest_of(attempts: Sequence[Attempt]) -> Attempt:
    """The one with the lowest distance."""
    return min(attempts, key=lambda row: row.distance)


def _ways() -> Iterator[tuple[str, int]]:
    """Each constant down and up."""
    for scope in SCOPES:
        yield scope.name, -1
        yield scope.name, 1


def _moved(judged: Sequence[Attempt], name: str, way: int) -> dict[str, int] | None:
    """The steps of the nearest with one constant a step further; None where that was judged, or is out of its scope."""
    steps = dict(nearest_of(judged).steps)
    steps[name] += way
    return steps if 0 <= steps[name] < STEPS and steps not in [dict(row.steps) for row in judged] else None


def _screen() -> Iterator[Choices]:
    middle = Choices()
    yield middle
    for name, values in ALTERNATIVES:
        for value in values:
            if value != getattr(middle, name):
                yield replace(middle, **{name: value})  # type: ignore[arg-type]


def nearest_choices(screened: Sequence[Attempt]) -> Choices:
    """Of each choice the value that was nearest while all others were in the middle."""
    middle, best = Choices(), Choices()
    for name in (name for name, _ in ALTERNATIVES if name != "absence"):
        rivals = [row for row in screened if replace(row.choices, **{name: getattr(middle, name)}) == middle]
        best = replace(best, **{name: getattr(nearest_of(rivals).choices, name)})
    return best


def _next(judged: Sequence[Attempt], draws: np.random.Generator) -> list[tuple[str, dict[str, int]]]:
    """Steps that were not judged yet, and how they came up."""
    before = [dict(row.steps) for row in judged]
    if not judged:
        return [("middle", dict(MIDDLE))]
    if len(judged) >= BY_CHANCE:
        fresh = [steps for steps in proposed(judged, int(draws.integers(2**31 - 1))) if steps not in before]
        if fresh:
            return [("search", steps) for steps in fresh]
    while True:
        steps = {scope.name: int(draws.integers(STEPS)) for scope in SCOPES}
        if steps not in before:
            return [("chance", steps)]


def proposed(judged: Sequence[Attempt], seed: int) -> list[dict[str, int]]:
    """Steps of which Ax expects most."""
    from planner.proposing.search.experiment import DialProposer  # torch, only where it is needed

    proposer = DialProposer({scope.name: range(STEPS) for scope in SCOPES}, [-math.inf])
    return proposer.propose([(row.steps, (-row.distance,)) for row in judged], AT_ONCE, seed)


def run_reading(stage: str, choices: Choices, steps: Mapping[str, int], seed: int, scale: float) -> Attempt:
    """The thesis' main setting under a reading."""
    study = ServingStudy(
        pool=ServingPool(types=machines(MACHINES), models=dnn_models()),
        policies=CALIBRATED,
        seeds=(seed,),
        law=replace(law_of(choices), scale=scale),
        settings=settings_of(choices, constants_at(steps)),
    )
    study = replace(study, requests=requests_of_seed(study, seed))
    means = means_of([run_serving_seed(study, policy, seed) for policy in CALIBRATED])
    figures = tuple(means[row.policy][row.figure] for row in PUBLISHED)
    return Attempt(stage=stage, choices=choices, steps=dict(steps), figures=figures)
