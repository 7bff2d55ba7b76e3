"""Studies: published evaluations done again with our model. No disk, no printing.

Doors: `chapter5` (what is to be done, as data), `expected` (how long it will take), `run` (doing it).
"""

from planner.studies.chapter5 import FIGURES, Request, document, experiments, island_cases
from planner.studies.expected_time import Pace, expected
from planner.studies.run import Step, run

__all__ = [
    "FIGURES",
    "Pace",
    "Request",
    "Step",
    "document",
    "expected",
    "experiments",
    "island_cases",
    "run",
]
