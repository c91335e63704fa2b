"""The command `pmlda`: one command is one call of the package."""

# Help lists commands in the order in which they are made.
from pmlda.cli import pictures

# isort: split
from pmlda.cli import simulate

# isort: split
from pmlda.cli import experiments

# isort: split
from pmlda.cli import warmup
from pmlda.cli.app import app

__all__ = ["app", "experiments", "pictures", "simulate", "warmup"]
