"""Published studies at hand, a file a study. `named.py` lists them."""
