"""Schedules: plans at rates, what they cost, which stands when, and the bound of the day."""
