"""Passes that carry running sequences and chunks of prompts: what they take, and that part by part."""

from planner.cost.mixed.passes import Passes, added_ms, intake, mixed_cost, pass_cost

__all__ = ["Passes", "added_ms", "intake", "mixed_cost", "pass_cost"]
