"""Change and schedules: which plan stands when, and what a change costs."""
