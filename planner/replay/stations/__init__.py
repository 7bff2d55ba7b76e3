"""Servers and links as requests pass them."""
