"""KV caches on their way and where they stay: the network between islands, tiers below device memory."""
