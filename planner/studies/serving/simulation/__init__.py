"""Requests, queues and machines in virtual time."""
