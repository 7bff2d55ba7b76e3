"""Runs computed anew, and what of their files differs."""
