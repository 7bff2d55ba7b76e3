"""Clusters and placements as text and pictures."""
