"""`planner simulate cluster`, `planner simulate queue`, `planner study pwr`."""
