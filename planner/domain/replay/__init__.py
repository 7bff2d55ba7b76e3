"""Replays: requests sent through a plan one by one, and what became of them."""
