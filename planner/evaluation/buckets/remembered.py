"""Prices of the last few questions: a process may be asked of the same fleet and work again, by another seed, say."""

from dataclasses import replace
from functools import lru_cache

from planner.domain import Question
from planner.evaluation.buckets.prices import BucketPrices

MOST_QUESTIONS = 12
"""Remembered at a time: two small fleets and the neighbours that each asks of. The largest have tens of MB."""


def prices_of(question: Question) -> BucketPrices:
    """The prices of a question, as `BucketPrices` works them out; of a cluster's nodes always anew."""
    scenario = question.scenario
    if scenario.cluster is not None:  # a hundred thousand nodes would be compared
        return BucketPrices(question)
    search = replace(scenario.search, seed=0, processes=1)
    return _remembered(replace(question, scenario=replace(scenario, search=search, inputs=())))


@lru_cache(maxsize=MOST_QUESTIONS)
def _remembered(question: Question) -> BucketPrices:
    return BucketPrices(question)
