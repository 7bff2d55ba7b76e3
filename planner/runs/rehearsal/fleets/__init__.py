"""A fleet's front, tried before a GPU is rented: every deployment's routers behind it, and requests of all services."""
