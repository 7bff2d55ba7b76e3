"""What routers make of their configurations: who takes which lengths, and from which servers."""
