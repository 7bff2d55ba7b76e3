"""Requests through a plan, one by one, in virtual time. Door: `simulate`; `sweep` asks it for many rates.

From Python `planner.replay(plan, "lengths", "0.9x", requests=2000)` does so, `plan` being a plan or the path of a run
folder: as `plan.replay` does.
"""

from planner.doors import make_callable
from planner.replay.classes import judge_classes, simulate_classes
from planner.replay.simulate import LADDER, Arrivals, Promise, judge, simulate, sweep

__all__ = ["LADDER", "Arrivals", "Promise", "judge", "judge_classes", "simulate", "simulate_classes", "sweep"]

make_callable(__name__, "planner.api.planning")
