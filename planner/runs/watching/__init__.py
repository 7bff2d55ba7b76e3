"""A watch: feeds read, plans made where they are needed, decisions and plans written."""
