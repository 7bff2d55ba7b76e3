"""Unit factors, named so that no formula carries a bare power of ten or two."""

MIB = 1024.0**2
GIB = 1024.0**3
GB = 1e9
MEGA = 1e6
GIGA = 1e9
MS_PER_S = 1000.0
SECONDS_PER_HOUR = 3600.0
