"""What it takes to operate a plan: probes, an end without lost requests, weights, budgets of evictions, the network;
which metrics stand for its promises, and how many copies it may have."""
