"""What benchmarks measured: tables of points and results of benchmark tools, read into runs with their conditions."""
