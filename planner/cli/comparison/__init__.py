"""Commands that hold plans against each other, or against what they might have been."""
