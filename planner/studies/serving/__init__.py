"""Many models on one pool of machines: who loads what and when, after the Warsaw thesis on serving (2024)."""
