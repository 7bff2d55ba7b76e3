"""Commands that change plans: anew with least change, over a day, as inputs change."""
