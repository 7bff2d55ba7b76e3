"""Pools in draws of what is not known: how fast servers are, what is asked, which nodes are there."""
