"""Tests of pmlda.images."""
