"""Benchmark runs under load: predicted, judged, and what the factors are fitted to."""
