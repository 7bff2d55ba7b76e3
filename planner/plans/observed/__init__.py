"""A running deployment beside its plan."""
