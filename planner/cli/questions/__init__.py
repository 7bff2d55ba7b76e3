"""Commands that answer questions about money in one line, and that write a scenario."""
