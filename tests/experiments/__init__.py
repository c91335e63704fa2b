"""Tests of pmlda.experiments."""
