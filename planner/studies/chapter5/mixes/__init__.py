"""What mixing GPU types is worth: every fleet of one rent, mixed or of one type, beside the best of one type."""
