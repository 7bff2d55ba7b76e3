"""The manual: the whole program in one file, made from the code; as Markdown, and as a manual page for `man`."""
