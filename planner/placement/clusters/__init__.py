"""Clusters from what others say of them (`imported_nodes`, `imported_pods`), and made up (`synthesize`)."""

from planner.placement.clusters.synthetic import DEFAULT_TYPES, Fit, NodeType, synthesize
from planner.placement.clusters.synthetic_pods import TaskMix

__all__ = ["DEFAULT_TYPES", "Fit", "NodeType", "TaskMix", "synthesize"]
