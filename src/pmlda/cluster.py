"""The `map` that runs on Dask."""
