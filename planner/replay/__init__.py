"""Replay: the requests of a stream sent through a plan one by one."""
