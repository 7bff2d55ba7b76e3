"""`planner simulate serving`."""
