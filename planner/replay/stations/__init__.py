"""Servers as requests pass them."""
