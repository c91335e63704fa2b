"""Checkpoints of a fit."""
