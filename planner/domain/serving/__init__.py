"""How requests are served: routing, servers and their pools, forms of serving side by side."""
