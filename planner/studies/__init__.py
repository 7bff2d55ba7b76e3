"""Published studies, guests of the planner: a folder each, with its records, inputs, study, tables, report, commands.

Nothing outside imports them; `guest.py` says what they bring, and the entry point in pyproject.toml names it.
"""
