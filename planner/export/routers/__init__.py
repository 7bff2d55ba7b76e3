"""The routing of a plan as routers read it."""
