"""Figures 2 to 12 of the ASI paper, a class a figure: which columns it needs, what a row adds, its points."""
