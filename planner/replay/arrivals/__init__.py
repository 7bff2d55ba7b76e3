"""Arrivals: a trace becomes a stream of requests at a rate."""

from planner.replay.arrivals.streams import requests_of, require_longer_than

__all__ = ["requests_of", "require_longer_than"]
