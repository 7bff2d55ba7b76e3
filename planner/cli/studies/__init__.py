"""Commands of studies that read a trace or a cluster of the user's."""
