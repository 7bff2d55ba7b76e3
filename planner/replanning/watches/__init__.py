"""Following what changes: what feeds say, when a plan gives way, and what that was worth."""
