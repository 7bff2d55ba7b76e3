"""What every page and figure is made of: numbers as text, Markdown, style, callouts."""
