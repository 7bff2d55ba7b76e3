"""Plans beside each other: their figures, what differs, sweeps over keys of a scenario, what explains a plan."""
