"""Who proposes a plan: the choice, its certificate, what is feasible, what one more GPU would add."""
