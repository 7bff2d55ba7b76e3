"""Pages that stand alone: what one holds (`blocks`), and how it becomes one HTML file."""
