"""One plan as text, tables and figures."""
