"""Runs on the disk beside each other, and the files that show them."""
