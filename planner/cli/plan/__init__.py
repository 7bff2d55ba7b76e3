"""Commands on a plan: make, check, place, export, compare."""
