"""Where islands found no room: larger sets of them that fit, and other forms of one."""
