"""Versions of plan.json's schema."""

SCHEMA_VERSION = 2
UNSEALED_VERSION = 1
"""Of before digests: read, and said to be unverified."""
