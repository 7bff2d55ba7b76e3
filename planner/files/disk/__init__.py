"""Documents, tables and folders as such: opened within bounds, written whole or not at all."""
