"""Processes: who works at once, and how all of them end when they are told to."""
