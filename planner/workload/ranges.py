"""Length ranges: a profile cut into [k W, (k+1) W).

| symbol | meaning | unit | source |
|---|---|---|---|
| W | width of a range | tokens | scenario, `ranges.width` |
| p_j | probability mass of range j | 1 | sum over its lengths |
| midpoint | k W + floor(W / 2), where the paper's cost model looks | tokens | Rignall 2025, chapter 4 |
"""

import math
from collections import defaultdict

from planner.domain import LengthProfile, LengthRange, Question, Scenario, Workload
from planner.errors import InputError

_Member = tuple[int, float, float | None]


def question_of(scenario: Scenario) -> Question:
    """The scenario with its workload cut into ranges of the width that it asks for. Raises as `divide` does."""
    return Question(scenario=scenario, workload=divide(scenario.workload, scenario.ranges.width))


def divide(profile: LengthProfile, width: int) -> Workload:
    """Cut a profile into ranges of `width` tokens.

    They run from 0 to the first multiple of `width` above the longest prompt. Every length falls into exactly
    one range; ranges without mass are left out.
    """
    if width < 1:
        raise InputError(f"ranges.width must be at least 1 token, got {width}.", hint="Give a width such as 256.")
    answers = profile.output_tokens or (None,) * len(profile.input_tokens)
    members: defaultdict[int, list[_Member]] = defaultdict(list)
    for length, probability, answer in zip(profile.input_tokens, profile.probabilities, answers, strict=True):
        if probability > 0.0:
            members[length // width].append((length, probability, answer))
    return Workload(
        name=profile.name,
        ranges=tuple(_range(k * width, width, members[k]) for k in sorted(members)),
        mean_input_tokens=profile.mean_input_tokens,
        mean_output_tokens=profile.mean_output_tokens,
        max_output_tokens=profile.max_output_tokens,
    )


def _range(start: int, width: int, members: list[_Member]) -> LengthRange:
    mass = math.fsum(probability for _, probability, _ in members)
    return LengthRange(
        start=start,
        end=start + width,
        midpoint=start + width // 2,
        probability=mass,
        # from the start, so that rounding cannot leave the range
        mean_input_tokens=start + math.fsum((length - start) * p for length, p, _ in members) / mass,
        longest_input_tokens=max(length for length, _, _ in members),
        mean_output_tokens=_mean_answer(members, mass),
    )


def _mean_answer(members: list[_Member], mass: float) -> float | None:
    """Mean answer to the prompts of a range; None where answers are not known by length."""
    answered = [(probability, answer) for _, probability, answer in members if answer is not None]
    if len(answered) < len(members):
        return None
    return math.fsum(probability * answer for probability, answer in answered) / mass
