"""Commands on the cost model."""
