"""The reference, written from the code: commands from the program itself, keys from the readers; and the guides."""
