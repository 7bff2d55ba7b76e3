"""A churned cluster with and without defragmentation: what it frees, and what it costs in moves."""
