"""Plans beside each other, sweeps and explanations, as words, tables, frames and pages."""
