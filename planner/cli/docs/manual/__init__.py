"""The whole program in parts, made from the code, and as a manual page for `man`."""
