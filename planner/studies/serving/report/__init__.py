"""The serving study as page, tables and figures."""
