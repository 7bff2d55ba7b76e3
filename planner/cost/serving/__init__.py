"""Servers as they are deployed: one configuration, one budget, one batch for all the prompts of a bucket."""

from planner.cost.serving.buckets import Buckets, Interval, Levels
from planner.cost.serving.decode_servers import BATCHES, DecodeServers
from planner.cost.serving.mixed_servers import MixedServers
from planner.cost.serving.parting import Kind, Parting, parts_unevenly
from planner.cost.serving.prefill_servers import HALVINGS, PrefillServers
from planner.cost.serving.shapes import every_size, node_sizes, server_shapes
from planner.cost.serving.waits import Arrivals, RestOfStep, WaitTail, late_share

__all__ = [
    "BATCHES",
    "HALVINGS",
    "Arrivals",
    "Buckets",
    "DecodeServers",
    "Interval",
    "Kind",
    "Levels",
    "MixedServers",
    "Parting",
    "PrefillServers",
    "RestOfStep",
    "WaitTail",
    "every_size",
    "late_share",
    "node_sizes",
    "parts_unevenly",
    "server_shapes",
]
