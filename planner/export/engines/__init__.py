"""Command lines of the serving engines."""
