"""What one layout is worth: its table, its assignment, its goodput, its place on nodes."""
