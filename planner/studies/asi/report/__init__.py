"""Page and figures of a trace."""
