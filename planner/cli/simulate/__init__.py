"""Commands that simulate and study."""
