"""Servers as they are deployed: one configuration, one budget, one batch for all the prompts of a bucket."""

from planner.cost.serving.buckets import Buckets, Interval, Levels
from planner.cost.serving.decode_servers import DecodeServers
from planner.cost.serving.mixed_servers import MixedServers
from planner.cost.serving.prefill_servers import HALVINGS, PrefillServers, RestOfStep, late_share
from planner.cost.serving.shapes import every_size, node_sizes, server_shapes

__all__ = [
    "HALVINGS",
    "Buckets",
    "DecodeServers",
    "Interval",
    "Levels",
    "MixedServers",
    "PrefillServers",
    "RestOfStep",
    "every_size",
    "late_share",
    "node_sizes",
    "server_shapes",
]
