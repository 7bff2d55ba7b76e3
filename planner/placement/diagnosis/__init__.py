"""Idle GPUs that cannot serve a request, by cause, and what a single change would open. Door: `diagnose`."""

from planner.placement.diagnosis.diagnosis import diagnose

__all__ = ["diagnose"]
