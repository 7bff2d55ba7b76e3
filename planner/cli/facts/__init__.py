"""Commands that show what is shipped."""
