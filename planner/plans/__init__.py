"""The finished plan: put together, audited, recounted at exact lengths, compared."""
