"""The section `doubt` of a scenario: what is not known, and which errors go together."""

from collections.abc import Sequence

import numpy as np

from planner.domain.serving.doubt import SHARED, DoubtSettings
from planner.files.records import read_record
from planner.files.sections import Section

ROUNDING = 1e-9
"""Of an eigenvalue that is 0."""


def read_doubt(section: Section, gpus: Sequence[str]) -> DoubtSettings:
    """The settings; `gpus`: types of the inventory. InputError for pairs of other types, and for correlations that
    contradict each other."""
    settings = read_record(DoubtSettings, section)
    matrix = np.eye(len(gpus)) * (1 - SHARED) + SHARED
    pairs = [(row.gpu, row.other) for row in settings.alike]
    for number, (row, pair) in enumerate(zip(settings.alike, pairs, strict=True)):
        if row.gpu == row.other or not set(pair) <= set(gpus):
            raise section.refusal(
                "alike",
                f"must be of two GPU types of the inventory each, got {row.gpu} and {row.other}",
                hint=f"Name two of {', '.join(gpus)}.",
            )
        if set(pair) in [set(other) for other in pairs[:number]]:
            raise section.refusal(
                "alike", f"must name a pair once, got {row.gpu} and {row.other} twice", hint="Leave one of them out."
            )
        first, second = (gpus.index(gpu) for gpu in pair)
        matrix[first, second] = matrix[second, first] = row.correlation
    least = float(np.linalg.eigvalsh(matrix).min()) if gpus else 0.0
    if least < -ROUNDING:
        raise section.refusal(
            "alike",
            f"must make a matrix of correlations, which has no negative eigenvalue; with {SHARED:g} for the pairs that "
            f"are not named, got one of {least:.3g}",
            hint="Types that err like a third err like each other: raise that correlation, or lower another.",
        )
    return settings
