"""The study of chapter 5 as page, tables and figures."""
