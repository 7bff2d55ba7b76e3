"""A finished table on a router's grid: cells of prompt length for pools of islands."""
