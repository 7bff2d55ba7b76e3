"""Reports as HTML: a page that stands alone, its charts, tables, prose and shapes."""
