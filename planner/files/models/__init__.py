"""Models from their config.json, and GPU types."""
