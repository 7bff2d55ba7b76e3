"""The figures of the ASI paper on any trace of its columns: what a trace lacks is said, not drawn."""
