"""Several plans beside each other: differences, frontiers, goals."""
