"""Engine profiles: a file each engine and version, and their reader."""
