"""What runs without a plan: found, rebuilt as plans, held beside its metrics, and what to change of it first."""
