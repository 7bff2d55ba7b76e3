"""Commands for many scenarios at once."""
