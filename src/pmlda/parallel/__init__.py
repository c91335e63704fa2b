"""Who does the work: threads here, processes or a cluster through Dask; Ctrl-C and progress meanwhile."""
