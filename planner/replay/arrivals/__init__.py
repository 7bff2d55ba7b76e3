"""Arrivals: a trace, or a workload's lengths, become a stream of requests at a rate."""

from planner.replay.arrivals.merging import merged_streams
from planner.replay.arrivals.streams import requests_of, requests_of_profile, require_longer_than

__all__ = ["merged_streams", "requests_of", "requests_of_profile", "require_longer_than"]
