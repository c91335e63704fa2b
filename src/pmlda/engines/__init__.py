"""Interchangeable inference methods behind one interface, engines.base; engines.registry has them by name."""
