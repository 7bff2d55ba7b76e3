"""Schedulers as small state machines behind one protocol."""
