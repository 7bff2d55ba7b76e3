"""From logs of runs to the figures of a result."""
