"""Mosaic: what a run over blocks left on disk, read when it is asked for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from pmlda.errors import RunError
from pmlda.features import Function
from pmlda.images.windowed import open_windowed
from pmlda.recipe import load_chain
from pmlda.segmentation import Chain
from pmlda.settings import Settings
from pmlda.types import FloatArray, Image


@dataclass(frozen=True, eq=False)
class Mosaic:
    """Soft maps of a picture of any size. Maps stay on disk: slice them, or give them to np.asarray if they fit.

    path : the Zarr group or the TIFF
    chain : what was learnt; pmlda.pipeline.api.apply takes it
    record : what run.json tells
    """

    path: Path
    chain: Chain
    record: dict[str, Any]
    _keeper: Any = field(default=None, repr=False)

    @property
    def memberships(self) -> Any:
        """(H, W, K) how much of each topic, NaN where there is no data; an array of Zarr, or of numbers from a TIFF."""
        if is_tiff(self.path):
            return np.asarray(self.read(slice(None), slice(None)).pixels)
        return self._array("memberships")

    @property
    def uncertainty(self) -> Any:
        """(H, W, K) standard deviation of each membership, topics taken as known. Not in a TIFF."""
        return self._array("uncertainty")

    @property
    def labels(self) -> Any:
        """(H, W) the largest topic, −1 where there is no data. Not in a TIFF."""
        return self._array("labels")

    @property
    def topics(self) -> FloatArray:
        """(K, p) mean of each topic in units of the features."""
        return self.chain.topics

    @property
    def feature_names(self) -> tuple[str, ...]:
        return self.chain.features.names

    @property
    def settings(self) -> Settings:
        return self.chain.settings

    @property
    def timings(self) -> dict[str, float]:
        """Seconds of each stage."""
        return dict(self.record["seconds"])

    @property
    def verdict(self) -> str:
        """One sentence on convergence."""
        return str(self.record["verdict"])

    def read(self, rows: slice, columns: slice) -> Image:
        """A window of the memberships, placed where it lies."""
        return open_windowed(self.path).read(rows, columns)

    def _array(self, name: str) -> Any:
        import zarr

        if is_tiff(self.path):
            raise AttributeError(f"A TIFF holds memberships alone. Write to a name ending in .zarr to have {name} too.")
        return zarr.open_array(self.path / name, mode="r")


def is_tiff(path: Path) -> bool:
    return path.suffix.lower() in (".tif", ".tiff")


def beside(out: Path, name: str) -> Path:
    """Where something that belongs to the maps lies: in the Zarr group, or beside a TIFF with its name."""
    return out.with_name(f"{out.stem}-{name}") if is_tiff(out) else out / name


def load_mosaic(out: str | Path, keeper: Any = None, functions: Mapping[str, Function] | None = None) -> Mosaic:
    """What a run wrote.

    functions : features that are functions, by name; a model file does not hold them
    """
    out = Path(out)
    try:
        record = json.loads(beside(out, "run.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise RunError(f"{str(out)!r} was not written by `pmlda segment` (its run.json is missing).") from None
    return Mosaic(out, load_chain(beside(out, "model.pmlda"), functions), record, keeper)
