"""The scale-up study as page, tables and figures."""
