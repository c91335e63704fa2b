"""Tests of pmlda.features."""
