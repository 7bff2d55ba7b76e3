"""Many models on one pool of machines: who loads what and when, after the Warsaw thesis on serving schedulers (2024)."""
