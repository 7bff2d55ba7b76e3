"""The ASI paper's figures 2 to 16 held against the study of a made-up trace that meets its marginals.

What was put in is marked so: that it comes out again says that the study counts as the paper does, and nothing more.
What follows was not put in, and is the test: whether priorities, models, GPU types, sizes and placement by the
published policy, each as published, make the paper's other figures.
"""

from collections.abc import Iterator

from planner.studies.asi.claims.figures import Figures
from planner.studies.asi.claims.placement import placement_claims
from planner.studies.asi.claims.workload import workload_claims
from planner.studies.papers.records import Claim, Results


def claims(results: Results) -> Iterator[Claim]:
    """Figures in the paper's order."""
    figures = Figures(results)
    yield from workload_claims(figures)
    yield from placement_claims(figures)


__all__ = ["claims"]
