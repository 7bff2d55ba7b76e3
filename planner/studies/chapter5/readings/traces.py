"""The lengths of prompts that the thesis's searches were run for, in ranges.

Azure's week of May 2024 (CC-BY, Stojkovic et al., *DynamoLLM*, HPCA 2025, which the thesis cites as [35]) is 44 million
requests and is not shipped. What is here was read off the histogram of 40 bars that Azure's own notebook draws of each
trace (AzurePublicDataset, analysis/AzureLLMInferenceDataset2024.ipynb; heights in pixels), and made finer where
published quantiles say more: of code P99 is 7,685 tokens and nothing lies above 7,700, of conversation P25 is 546.
From these bars the mean is 2,510 and 1,630 tokens; the whole traces have 2,511 and 1,632.
"""

from dataclasses import dataclass, replace

import numpy as np

from planner.domain import LengthRange, Workload
from planner.studies.chapter5.experiments import CODE, CONVERSATION


@dataclass(frozen=True, slots=True, kw_only=True)
class WeekTrace:
    """Prompts of a week: heights of bars of equal width from 1 token to `longest`, and points (tokens, share below).

    `mean_answer` and `longest_answer` (tokens) as the thesis's code has them.
    """

    longest: int
    heights: tuple[int, ...]
    points: tuple[tuple[float, float], ...]
    mean_answer: int
    longest_answer: int


WEEK = {
    CODE: WeekTrace(
        longest=7743,
        heights=(389, 286, 270, 274, 275, 283, 323, 283, 265, 262, 255, 238, 227, 204, 182, 159, 140, 121, 108, 93,
                 81, 70, 62, 57, 51, 47, 42, 38, 35, 32, 31, 28, 27, 26, 23, 22, 24, 29, 33, 403),
        points=((7660, 0.944), (7685, 0.99), (7700, 1.0)),
        mean_answer=22,
        longest_answer=5000,
    ),
    CONVERSATION: WeekTrace(
        longest=7999,
        heights=(81, 224, 403, 172, 56, 43, 40, 48, 73, 90, 88, 73, 56, 55, 46, 35, 27, 21, 18, 17,
                 19, 19, 18, 12, 11, 12, 11, 11, 9, 7, 7, 6, 4, 4, 4, 3, 2, 2, 2, 2),
        points=((536, 0.2385), (546, 0.25)),
        mean_answer=106,
        longest_answer=1500,
    ),
}  # fmt: skip


def week_of(workload: Workload, width: int) -> Workload:
    """The workload with the prompts and answers of the same service in that week, in ranges of `width` tokens."""
    trace = WEEK[workload.name]
    edges = np.linspace(1, trace.longest, len(trace.heights) + 1)
    below = np.concatenate([[0.0], np.cumsum(trace.heights) / sum(trace.heights)])
    finer = np.array(trace.points)
    outside = (edges < finer[0, 0]) | (edges > finer[-1, 0])
    knots = np.concatenate([np.stack([edges, below], axis=1)[outside], finer])
    places, shares = knots[np.argsort(knots[:, 0])].T
    starts = np.arange(0, trace.longest - width // 2 + 1, width)  # a range whose midpoint nobody reaches is none
    masses = np.interp(starts + width, places, shares) - np.interp(starts, places, shares)
    ranges = tuple(
        _range(int(start), width, float(mass)) for start, mass in zip(starts, masses / masses.sum(), strict=True)
    )
    return replace(
        workload,
        ranges=tuple(span for span in ranges if span.probability > 0),
        mean_output_tokens=float(trace.mean_answer),
        max_output_tokens=trace.longest_answer,
    )


def _range(start: int, width: int, mass: float) -> LengthRange:
    middle, end = start + width // 2, start + width
    return LengthRange(
        start=start,
        end=end,
        midpoint=middle,
        probability=mass,
        mean_input_tokens=float(middle),
        longest_input_tokens=end - 1,
    )
