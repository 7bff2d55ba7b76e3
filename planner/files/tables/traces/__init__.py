"""Request traces as users have them: CSV of any separator, JSON lines and arrays, packed or not, data frames."""
