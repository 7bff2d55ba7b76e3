"""A plan replayed from the command line: its rate, trace and settings, and what routers lose of it."""
