"""The scenario and its sections, from a mapping and back."""
