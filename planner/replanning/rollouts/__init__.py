"""A change in steps that keep serving: orders, what serves meanwhile, and its plans."""
