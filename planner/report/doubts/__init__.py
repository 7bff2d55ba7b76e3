"""What a plan is worth where speeds, demand, prices or nodes are not known."""
