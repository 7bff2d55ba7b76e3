"""Checks of pods and what schedules them."""
