"""A running deployment beside its plan, as page, table and JSON."""
