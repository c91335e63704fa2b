"""Tests of pmlda.evaluation.experiments."""
