"""A change of plan: what stays, what stops and starts, the frontier, the roll-out; and plans over a day or a week."""
