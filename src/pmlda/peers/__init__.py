"""Interchangeable models to compare with, all with the estimator's face."""
