"""What makes pods fail in operation: starts that are given up, requests cut off, weights that nobody fetches, evictions
that take too much."""
