"""Studies: one folder each, with its records, inputs, study, tables and report."""
