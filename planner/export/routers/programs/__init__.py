"""Routers that are programs in front of the engines: their configuration and command lines, written and read back."""
