"""Pools behind buckets of prompt length: what is offered, what no pools can exceed, the best and the simplest."""
