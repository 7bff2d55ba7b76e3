"""Whom a router sends a request to."""

from planner.replay.routing.choosers import Chooser, chooser_of

__all__ = ["Chooser", "chooser_of"]
