"""A bounded load of a plan's own mix on what serves it, by a known load generator, judged as its replay is."""
