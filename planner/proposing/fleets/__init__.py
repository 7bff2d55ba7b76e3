"""Several services on one inventory: who gets which nodes, what that is worth, and who pays for it."""
