"""Records of re-planning: what changes from a plan to the next, in which order, and plans over a day or a week."""
