"""The thesis read so that its published figures come out: what it leaves open, calibrated."""
