"""What runs, read over the network where the user asks for it: beside rehearsals the only place that connects."""
