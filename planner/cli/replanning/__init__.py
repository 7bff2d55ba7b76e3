"""Commands that change plans: over a day, by load, prices or nodes."""
