"""A change of plan: what stays, what stops and starts, the frontier of rate against change, the steps in order."""
