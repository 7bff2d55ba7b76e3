"""Commands on clusters."""
