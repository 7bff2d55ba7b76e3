"""What text becomes on a terminal: tables and Markdown that fit its width, letters that its encoding has."""
