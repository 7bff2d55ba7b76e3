"""Jobs and tasks on the workers of Dask's distributed, an optional extra."""
