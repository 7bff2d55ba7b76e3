"""Fleets hour by hour: which of their servers stand, and who has the other nodes meanwhile."""
