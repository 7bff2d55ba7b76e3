"""Plans of buckets: which pools, how good they are, what would change them, what they promise."""
