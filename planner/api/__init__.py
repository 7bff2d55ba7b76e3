"""The front for notebooks and programs: one file a subject. `planner/__init__.py` lists the names."""
