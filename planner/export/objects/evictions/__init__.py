"""Pods that have to go, or to move, as scripts: evictions of policy/v1 in their order."""
