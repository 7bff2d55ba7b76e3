"""Pools behind buckets of prompt length: their prices, what they serve together, layouts judged by them."""
