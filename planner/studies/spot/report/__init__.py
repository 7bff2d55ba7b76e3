"""The spot study as page, tables and figures."""
