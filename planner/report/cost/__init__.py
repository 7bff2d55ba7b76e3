"""The cost model as tables and figures."""
