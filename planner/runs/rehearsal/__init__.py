"""A plan's routing, tried before a GPU is rented: real routers on the loopback before engines simulated at the plan's
step times. The only place of the planner with sockets of its own."""
