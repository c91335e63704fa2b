"""Pictures that do not fit in memory: source → blocks → topics → maps, block by block, on this machine or a cluster."""
