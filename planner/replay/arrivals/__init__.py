"""Arrivals: a trace, or a workload's lengths, become a stream of requests at a rate."""

from planner.replay.arrivals.streams import requests_of, requests_of_profile, require_longer_than

__all__ = ["requests_of", "requests_of_profile", "require_longer_than"]
