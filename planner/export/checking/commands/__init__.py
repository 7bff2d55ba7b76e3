"""Checks of engine command lines."""
