"""plan.json, the run folder around it, and the journal of a search."""
