"""Where the maps of tiles are written: arrays in memory, or chunks of a Zarr group on disk."""

import shutil
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from pmlda.images import zarrs
from pmlda.output.figures import topic_colours
from pmlda.parallel.interrupt import deferred_interrupt
from pmlda.pipeline.tiles import Plan, Tile, inside
from pmlda.segmentation import crisp
from pmlda.storage.atomic import write_file
from pmlda.storage.digest import digest
from pmlda.storage.store import Content, Store, need
from pmlda.types import Georeference, Image, IntArray, PixelSize

# Approximate number of pixels of the overview of a picture in tiles.
OVERVIEW_PIXELS = 500_000


class Maps(Protocol):
    """A destination of maps."""

    def write(
        self,
        tile: Tile,
        image: Image,
        memberships: Any,
        std: Any,
        documents: IntArray,
        residual: Any = None,
        novelty: Any = None,
    ) -> Content:
        """Write the maps of a tile, given as rows of its valid pixels; return what its part must contain."""

    def is_sound(self, tile: Tile, part: Content) -> bool:
        """Whether the maps of a tile match its part."""


class MemoryMaps:
    """Maps as arrays, by tile."""

    def __init__(self) -> None:
        self.memberships: dict[int, NDArray[np.float32]] = {}
        self.uncertainty: dict[int, NDArray[np.float32]] = {}
        self.documents: dict[int, IntArray] = {}
        self.residual: dict[int, NDArray[np.float32]] = {}
        self.novelty: dict[int, NDArray[np.float32]] = {}

    def write(
        self,
        tile: Tile,
        image: Image,
        memberships: Any,
        std: Any,
        documents: IntArray,
        residual: Any = None,
        novelty: Any = None,
    ) -> Content:
        self.memberships[tile.number] = to_map(memberships, image, np.float32)
        self.uncertainty[tile.number] = to_map(std, image, np.float32)
        self.documents[tile.number] = documents
        if residual is not None:
            self.residual[tile.number] = to_plane(residual, image, np.float32)
        if novelty is not None:
            self.novelty[tile.number] = to_plane(novelty, image, np.float32)
        return {}

    def is_sound(self, tile: Tile, part: Content) -> bool:
        return True


def to_map(rows: Any, image: Image, dtype: Any) -> NDArray[Any]:
    """(N, K) → (H, W, K), NaN where there is no data; not copied where it need not be."""
    if len(rows) == image.valid.size:
        return np.asarray(rows, dtype).reshape(*image.valid.shape, -1)
    out = np.full((*image.valid.shape, rows.shape[1]), np.nan, dtype)
    out[image.valid] = rows
    return out


def to_plane(values: Any, image: Image, dtype: Any) -> NDArray[Any]:
    """(N,) → (H, W), NaN where there is no data."""
    return to_map(values[:, None], image, dtype)[..., 0]


class ZarrMaps(NamedTuple):
    """Maps in a Zarr group, one or a few chunks per tile. It can be sent to another process.

    path : path of the group
    plan : tiles
    names : names of the topics
    """

    path: Path
    plan: Plan
    names: tuple[str, ...]
    georeference: Georeference | None
    pixel_size: PixelSize | None = None

    @property
    def shape(self) -> tuple[int, int]:
        return self.plan.shapes[0]

    @property
    def step(self) -> int:
        """Step between the rows and columns that are in the overview."""
        return max(1, int(np.ceil(np.sqrt(self.shape[0] * self.shape[1] / OVERVIEW_PIXELS))))

    @property
    def _side(self) -> int:
        return self.plan.side or max(self.shape)

    def create(self, path: Path | None = None) -> None:
        """Create an empty group for the maps."""
        path = path or self.path
        shutil.rmtree(path, ignore_errors=True)
        shape = (*self.shape, len(self.names))
        # zarr writes on a thread of its own, which would go on after Ctrl-C and make again what has been removed.
        with deferred_interrupt() as pressed:
            zarrs.create_maps(
                *(path, shape, self._side, self.names),
                georeference=self.georeference,
                pixel_size=self.pixel_size,
                colours=topic_colours(len(self.names)).tolist(),
            )
        if pressed():
            raise KeyboardInterrupt

    def mend(self) -> None:
        """Repair the metadata of the group if it was damaged; the chunks are checked tile by tile."""
        for half in [*self.path.rglob("*.partial"), *self.path.rglob(".*.part")]:  # zarr's names, and ours
            half.unlink()
        fresh = self.path.with_name("fresh.zarr")
        self.create(fresh)
        for file in (path for path in fresh.rglob("*") if path.is_file()):
            there, right = self.path / file.relative_to(fresh), file.read_bytes()
            if not there.is_file() or there.read_bytes() != right:
                there.parent.mkdir(parents=True, exist_ok=True)
                write_file(there, right)
        shutil.rmtree(fresh)

    def write(
        self,
        tile: Tile,
        image: Image,
        memberships: Any,
        std: Any,
        documents: IntArray,
        residual: Any = None,
        novelty: Any = None,
    ) -> Content:
        maps = to_map(memberships, image, np.float32)
        arrays: dict[str, NDArray[Any]] = {
            "memberships": maps,
            "uncertainty": to_map(std, image, np.float16),
            "dominant": crisp(maps).astype(np.int16),
            "documents": documents.astype(np.int32),
        }
        if residual is not None:
            arrays["residual"] = to_plane(residual, image, np.float16)
        if novelty is not None:
            arrays["novelty"] = to_plane(novelty, image, np.float32)
        for rows, columns in self._chunks(tile):
            here = inside(tile._replace(rows=rows, columns=columns), tile.rows, tile.columns)
            zarrs.write_block(self.path, rows, columns, **{name: array[here] for name, array in arrays.items()})
        step = self.step
        shown = (slice(-tile.rows.start % step, None, step), slice(-tile.columns.start % step, None, step))
        unknown = np.full(image.valid.shape, np.nan)
        return {
            "digests": {name: digest(array) for name, array in arrays.items()},
            "pixels": image.pixels[shown],
            "valid": image.valid[shown],
            "memberships": maps[shown],
            "uncertainty": arrays["uncertainty"][shown].astype(np.float32),
            "documents": arrays["documents"][shown],
            "residual": arrays.get("residual", unknown)[shown].astype(np.float32),
            "novelty": arrays.get("novelty", unknown)[shown].astype(np.float32),
        }

    def is_sound(self, tile: Tile, part: Content) -> bool:
        """Whether the maps of a tile match the digests in its part."""
        try:
            return all(
                digest(zarrs.read_block(self.path, name, tile.rows, tile.columns)) == expected
                for name, expected in part.get("digests", {}).items()
            )
        except Exception:  # whatever a damaged chunk makes its decoder raise
            return False

    def _chunks(self, tile: Tile) -> list[tuple[slice, slice]]:
        """The chunks of a tile: one, or several for a larger tile at the end."""

        def cut(part: slice) -> list[slice]:
            edges = range(part.start, part.stop, self._side)
            return [slice(first, min(first + self._side, part.stop)) for first in edges]

        return [(rows, columns) for rows in cut(tile.rows) for columns in cut(tile.columns)]


class Overview(NamedTuple):
    """A picture and its maps, subsampled to a displayable size."""

    pixels: NDArray[Any]
    valid: NDArray[np.bool_]
    memberships: NDArray[np.float32]
    uncertainty: NDArray[np.float32]
    documents: IntArray
    residual: NDArray[np.float32]
    novelty: NDArray[np.float32]


def gather_overview(maps: ZarrMaps, store: Store, n_bands: int, dtype: np.dtype[Any]) -> Overview:
    """Assemble the overview from the parts of all tiles."""
    step, k = maps.step, len(maps.names)
    height, width = (-(-length // step) for length in maps.shape)
    found = Overview(
        np.zeros((height, width, n_bands), dtype),
        np.zeros((height, width), bool),
        np.full((height, width, k), np.nan, np.float32),
        np.full((height, width, k), np.nan, np.float32),
        np.full((height, width), -1, np.int64),
        np.full((height, width), np.nan, np.float32),
        np.full((height, width), np.nan, np.float32),
    )
    for tile in maps.plan.tiles:
        part = need(store, "maps", tile.number)
        if "valid" not in part:
            continue
        top, left = -(-tile.rows.start // step), -(-tile.columns.start // step)
        here = np.s_[top : top + part["valid"].shape[0], left : left + part["valid"].shape[1]]
        for name, array in found._asdict().items():
            array[here] = part[name]
    return found
