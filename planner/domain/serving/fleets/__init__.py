"""Records of a fleet that changes: steps from one division to the next, and nodes that are lent by the hour."""
