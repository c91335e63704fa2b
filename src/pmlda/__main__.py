"""`python -m pmlda`, where the command itself is not on the path."""

from pmlda.cli import app

app()
