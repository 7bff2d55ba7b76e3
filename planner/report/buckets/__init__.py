"""Plans of buckets: pools on a whiteboard, the times of requests, simpler plans, lost nodes."""
