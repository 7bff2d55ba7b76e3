"""What a trace or a workload says: rows, a picture in letters, a figure, a page."""
