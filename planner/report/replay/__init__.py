"""A replay as text, tables, figures and files."""
