"""A plan's routing: as routers read it, and the programs, not ours, that execute it."""
