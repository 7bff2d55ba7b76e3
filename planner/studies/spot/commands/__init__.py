"""`planner simulate spot`."""
