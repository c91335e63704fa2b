"""The whole pipeline: pictures → tiles → features → topics → maps, in memory or on disk, here or on a cluster."""
