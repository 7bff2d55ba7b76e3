"""Records of the replay: the fleet as requests meet it, the requests, and what became of them."""
