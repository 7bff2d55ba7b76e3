"""Spot capacity: preemptible jobs beside guaranteed ones."""
