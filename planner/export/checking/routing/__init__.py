"""Checks of routes and their addresses."""
