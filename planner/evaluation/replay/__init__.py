"""A plan as requests meet it: its servers with their step times, for the replay."""
