"""Requests through a plan, one by one, in virtual time. Door: `simulate`; `sweep` asks it for many rates."""

from planner.replay.simulate import LADDER, Arrivals, Promise, simulate, sweep

__all__ = ["LADDER", "Arrivals", "Promise", "simulate", "sweep"]
