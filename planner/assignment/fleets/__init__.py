"""Several deployments out of one inventory: who gets which nodes."""
