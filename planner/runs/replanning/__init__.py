"""A change of a deployed plan as files: the new plan's run folder, the change, and its steps as manifests."""
