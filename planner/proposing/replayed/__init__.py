"""Pools chosen by replays: what the programme of buckets cannot see, searched for with two judges."""
