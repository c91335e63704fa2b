"""Fixtures of runs tile by tile: real worker processes, and what a run on one thread finds."""

from pathlib import Path
from typing import Any

import pytest

from pmlda import segment
from tests.pipeline.common import CHOICES, bits, workers, write_scene


@pytest.fixture(scope="module")
def client():
    """Two worker processes of one thread each."""
    with workers(2) as client:
        yield client


@pytest.fixture(scope="session")
def picture(tmp_path_factory) -> Path:
    return write_scene(tmp_path_factory.mktemp("picture"))


@pytest.fixture(scope="session")
def whole(picture, tmp_path_factory) -> Path:
    """What a run on one thread wrote, which nothing ever disturbed."""
    out = tmp_path_factory.mktemp("whole") / "maps.zarr"
    segment(picture, 3, out=out, n_jobs=1, **CHOICES)
    return out


@pytest.fixture(scope="session")
def expected(whole) -> dict[str, Any]:
    return bits(whole)
