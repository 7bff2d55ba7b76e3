"""The evaluation of the thesis that the method comes from, done again."""
