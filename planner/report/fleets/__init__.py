"""The plan of a fleet: several services on one inventory."""
