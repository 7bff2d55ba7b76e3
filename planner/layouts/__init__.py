"""Which layout, and how good: the choice, its certificate, what is feasible, what one more GPU would add."""
