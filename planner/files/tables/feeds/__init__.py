"""Feeds of prices, inventory, load and lost GPUs: tables with times, and files of the current state."""
