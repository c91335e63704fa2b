"""The real program, in a process of its own."""

import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

MOST_SECONDS = 240


def command(*arguments: Any) -> list[str | bytes]:
    """The words that start it. Names of files may be bytes."""
    words = [argument if isinstance(argument, bytes) else str(argument) for argument in arguments]
    return [sys.executable, "-m", "pmlda", *words]


def run(
    *arguments: Any, environment: Mapping[str, str] | None = None, text: bool = True, **settings: Any
) -> "subprocess.CompletedProcess[Any]":
    """The program to its end, and what it said.

    environment : variables besides those of this process
    text : otherwise what it says is given as bytes
    """
    variables = os.environ | dict(environment or {})
    return subprocess.run(
        command(*arguments), capture_output=True, text=text, env=variables, timeout=MOST_SECONDS, **settings
    )
