"""Finished plans beside each other."""
