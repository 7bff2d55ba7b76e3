"""Why table 5.1 has other rates than ours: what its text leaves open, each point read either way."""
