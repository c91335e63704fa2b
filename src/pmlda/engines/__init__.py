"""Interchangeable inference. Each engine's run() yields (state, info) after every sweep."""
