"""What a pod needs to be operated: probes, an end without lost requests, weights, budgets of evictions, the network."""
