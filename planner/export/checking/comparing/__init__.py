"""Manifests beside what the export writes: what differs, and what of that operators may change."""
