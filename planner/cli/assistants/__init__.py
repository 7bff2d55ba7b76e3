"""Commands as tools of assistants, over the Model Context Protocol: `planner mcp`.

A call is the command itself, run in a process that keeps to one folder; its answer comes with units and provenance.
"""
