"""Figures 2 to 14 and 16 of the ASI paper, a class a figure: which columns it needs, what a row adds, its points."""
