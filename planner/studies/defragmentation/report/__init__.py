"""Page and figures of a defragmentation study."""
