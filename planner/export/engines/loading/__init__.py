"""Which models an engine can load on how many GPUs, by engine."""
