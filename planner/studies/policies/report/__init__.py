"""The policy study as page, tables and figures."""
