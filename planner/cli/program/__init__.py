"""What the program is before any command of it is read: names, short helps, completion."""
