"""Small valid pictures of every kind, and ways to damage them: bytes and a random generator → other bytes."""

import json
import re
import struct
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import PIL.Image
import rasterio
import rasterio.shutil
import scipy.io
import tifffile
import zarr

from tests.images.pictures import PLACE, UTM, numbers, write_raster

SHAPE = (37, 29)  # rows and columns: neither a multiple of tiles nor of strips
Mutator = Callable[[bytes, np.random.Generator], bytes]


# ── valid pictures ─────────────────────────────────────────────────────────────────────────────────────────────────


def examples(folder: Path) -> dict[str, Path]:
    """One small valid picture of each kind in the folder, by a name for the kind."""
    folder.mkdir(parents=True, exist_ok=True)
    found = _plain_pictures(folder) | _tiffs(folder) | _arrays(folder) | _envis(folder) | _stores(folder)
    return found | _geo(folder)


def parts_of(path: Path) -> list[Path]:
    """The files that a picture consists of: a file alone, an ENVI file and its header, all files of a Zarr."""
    if path.is_dir():
        return sorted(each for each in path.rglob("*") if each.is_file())
    header = path.with_suffix(".hdr")
    return [path, header] if header.is_file() and header != path else [path]


def _plain_pictures(folder: Path) -> dict[str, Path]:
    found = {}
    for name, options, pixels in (
        ("grey.png", {}, numbers(*SHAPE)),
        ("colour.png", {}, numbers(*SHAPE, 3)),
        ("transparent.png", {}, numbers(*SHAPE, 4)),
        ("deep.png", {}, numbers(*SHAPE, dtype=np.uint16)),
        ("colour.jpg", {"quality": 90}, numbers(*SHAPE, 3)),
    ):
        found[name.replace(".", " ")] = folder / name
        PIL.Image.fromarray(pixels).save(folder / name, **options)
    return found


def _tiffs(folder: Path) -> dict[str, Path]:
    colours, planes = numbers(*SHAPE, 3), numbers(3, *SHAPE, dtype=np.uint16)
    kinds = {
        "plain": (colours, {"photometric": "rgb"}),
        "big-endian": (planes[0], {"byteorder": ">"}),
        "strips": (colours, {"photometric": "rgb", "rowsperstrip": 8}),
        "deflate strips": (colours, {"photometric": "rgb", "rowsperstrip": 8, "compression": "zlib"}),
        "tiles": (colours, {"photometric": "rgb", "tile": (16, 16)}),
        "deflate tiles": (colours, {"photometric": "rgb", "tile": (16, 16), "compression": "zlib", "predictor": True}),
        "planar": (planes, {"photometric": "minisblack", "planarconfig": "separate"}),
        "deflate planar": (planes, {"photometric": "minisblack", "planarconfig": "separate", "compression": "zlib"}),
        "pages": (planes, {"photometric": "minisblack"}),
        "ome": (planes, {"ome": True, "metadata": {"axes": "CYX"}}),
        "big": (colours, {"photometric": "rgb", "bigtiff": True, "tile": (16, 16)}),
    }
    found = {}
    for kind, (pixels, options) in kinds.items():
        path = folder / f"{kind.replace(' ', '-')}{'.ome' if kind == 'ome' else ''}.tif"
        tifffile.imwrite(path, pixels, **options)
        found[f"{kind} tif"] = path
    found["lzw tif"] = folder / "lzw.tif"
    PIL.Image.fromarray(colours).save(found["lzw tif"], compression="tiff_lzw")
    return found


def _geo(folder: Path) -> dict[str, Path]:
    cube = numbers(*SHAPE, 2, dtype=np.int16)
    place = {"crs": UTM, "transform": rasterio.Affine(*PLACE.transform), "nodata": -9999}
    found = {"geotiff": write_raster(folder / "geo.tif", cube, **place)}
    found["tiled geotiff"] = write_raster(
        folder / "geo-tiles.tif", cube, tiled=True, blockxsize=16, blockysize=16, compress="deflate", **place
    )
    found["nitf"] = write_raster(folder / "scene.ntf", cube, driver="NITF")
    with scipy.io.netcdf_file(folder / "scene.nc", "w") as file:
        for name, length in zip(("y", "x", "band"), cube.shape, strict=True):
            file.createDimension(name, length)
        file.createVariable("scene", "i2", ("y", "x", "band"))[:] = cube
    found["netcdf"] = folder / "scene.nc"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plane = write_raster(folder / "plane.tif", cube[:, :, :1])
        # A NetCDF file of version 4 is an HDF5 file.
        rasterio.shutil.copy(plane, folder / "scene.nc4", driver="netCDF", FORMAT="NC4", WRITE_BOTTOMUP="NO")
        plane.unlink()
    (folder / "scene.h5").write_bytes((folder / "scene.nc4").read_bytes())
    return found | {"netcdf 4": folder / "scene.nc4", "hdf5": folder / "scene.h5"}


def _arrays(folder: Path) -> dict[str, Path]:
    cube = numbers(*SHAPE, 3, dtype=np.float32)
    np.save(folder / "cube.npy", cube)
    np.save(folder / "columns.npy", np.asfortranarray(cube))
    np.savez(folder / "cube.npz", cube=cube)
    np.savez_compressed(folder / "packed.npz", cube=cube)
    scipy.io.savemat(folder / "cube.mat", {"cube": cube})
    scipy.io.savemat(folder / "packed.mat", {"cube": cube}, do_compression=True)
    names = ("cube.npy", "columns.npy", "cube.npz", "packed.npz", "cube.mat", "packed.mat")
    return {name.replace(".", " "): folder / name for name in names}


def _envis(folder: Path) -> dict[str, Path]:
    cube, found = numbers(*SHAPE, 3, dtype=np.uint16), {}
    for interleave, order in (("bsq", (2, 0, 1)), ("bil", (0, 2, 1)), ("bip", (0, 1, 2))):
        path = folder / f"{interleave}.img"
        path.write_bytes(np.ascontiguousarray(cube.transpose(order)).tobytes())
        fields = {"samples": SHAPE[1], "lines": SHAPE[0], "bands": 3, "header offset": 0, "data type": 12}
        fields |= {"interleave": interleave, "byte order": 0, "wavelength": "{450.5, 550.5, 650.5}"}
        header = ["ENVI", *(f"{name} = {value}" for name, value in fields.items())]
        path.with_suffix(".hdr").write_text("\n".join(header) + "\n")
        found[f"envi {interleave}"] = path
    return found


def _stores(folder: Path) -> dict[str, Path]:
    cube, found = numbers(*SHAPE, 3), {}
    for version, names in ((3, {"dimension_names": ("y", "x", "band")}), (2, {})):
        path = folder / f"store{version}.zarr"
        zarr.create_array(path, data=cube, chunks=(16, 16, 3), zarr_format=version, **names)
        found[f"zarr {version}"] = path
    return found


# ── damage ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def mutate(data: bytes, rng: np.random.Generator) -> bytes:
    """One to three kinds of damage, chosen at random; JSON and headers in text are also damaged as what they are."""
    text = [change_number, change_word] if is_text(data) else [replace_integer]
    choices = [*text, *text, flip_bits, zero_range, repeat_range, cut_off, remove_range]
    for _ in range(int(rng.integers(1, 4))):
        data = choices[int(rng.integers(len(choices)))](data, rng)
    return data


def is_text(data: bytes) -> bool:
    """Whether the bytes are plain text."""
    return bool(data) and all(32 <= byte < 127 or byte in b"\t\r\n" for byte in data[:2000])


def flip_bits(data: bytes, rng: np.random.Generator) -> bytes:
    """A few bits anywhere."""
    damaged = bytearray(data)
    for _ in range(int(rng.integers(1, 9)) if damaged else 0):
        damaged[_place(data, rng)] ^= 1 << int(rng.integers(8))
    return bytes(damaged)


def zero_range(data: bytes, rng: np.random.Generator) -> bytes:
    """Zeros instead of some bytes."""
    start, stop = _range(data, rng)
    return data[:start] + bytes(stop - start) + data[stop:]


def repeat_range(data: bytes, rng: np.random.Generator) -> bytes:
    """Some bytes twice."""
    start, stop = _range(data, rng)
    return data[:stop] + data[start:]


def remove_range(data: bytes, rng: np.random.Generator) -> bytes:
    """Some bytes left out."""
    start, stop = _range(data, rng)
    return data[:start] + data[stop:]


def cut_off(data: bytes, rng: np.random.Generator) -> bytes:
    """The end is missing."""
    return data[: int(rng.integers(len(data) + 1))]


def replace_integer(data: bytes, rng: np.random.Generator) -> bytes:
    """A whole number of 1, 2, 4 or 8 bytes becomes a small, a large or a negative one."""
    size = int(rng.choice([1, 2, 4, 8]))
    if len(data) < size:
        return data
    most = 2 ** (8 * size)
    number = int(rng.choice([0, 1, 2, 3, 255, 256])) if rng.random() < 0.5 else most - int(rng.choice([1, 2, 256]))
    letter = {1: "B", 2: "H", 4: "I", 8: "Q"}[size]
    start = min(_place(data, rng), len(data) - size)
    packed = struct.pack(f"{'<' if rng.random() < 0.5 else '>'}{letter}", (number if number >= 0 else 0) % most)
    return data[:start] + packed + data[start + size :]


def change_number(data: bytes, rng: np.random.Generator) -> bytes:
    """A number in a text becomes another."""
    others = ["0", "-1", "1", "7", "4294967297", "1e400", "0.5", "nan", '""', "null", "[]", "{}"]
    return _change(data, rb"-?\d+(\.\d+)?", [other.encode() for other in others], rng)


def change_word(data: bytes, rng: np.random.Generator) -> bytes:
    """A word in a text becomes another."""
    words = [b"bsq", b"bil", b"BIP", b"xyz", b"", b"shape", b"uint16", b"float64", b"y", b"x", b"bytes", b"\xff"]
    return _change(data, rb"[A-Za-z_]+\d*", words, rng)


def change_json(data: bytes, rng: np.random.Generator) -> bytes:
    """A value in JSON becomes one of another kind, or is left out."""
    tree = json.loads(data)
    node, key = tree, None
    while isinstance(node, dict | list) and node:
        keys = list(node) if isinstance(node, dict) else list(range(len(node)))
        key = keys[int(rng.integers(len(keys)))]
        if not isinstance(node[key], dict | list) or not node[key] or rng.random() < 0.3:
            break
        node = node[key]
    if key is not None:
        others = [None, -1, 0, 2**40, "text", [], {}, [[]], True, 1.5]
        choice = int(rng.integers(len(others) + 1))
        if choice == len(others):
            del node[key]
        else:
            node[key] = others[choice]
    return json.dumps(tree).encode()


def _change(data: bytes, pattern: bytes, others: list[bytes], rng: np.random.Generator) -> bytes:
    found = list(re.finditer(pattern, data))
    if not found:
        return flip_bits(data, rng)
    chosen = found[int(rng.integers(len(found)))]
    return data[: chosen.start()] + others[int(rng.integers(len(others)))] + data[chosen.end() :]


def _place(data: bytes, rng: np.random.Generator) -> int:
    """Half of the time in the first 300 bytes or the last, where headers and tables are, else anywhere."""
    near = min(300, len(data))
    where = rng.random()
    if where < 0.35:
        return int(rng.integers(near))
    return int(len(data) - near + rng.integers(near)) if where < 0.5 else int(rng.integers(len(data)))


def _range(data: bytes, rng: np.random.Generator) -> tuple[int, int]:
    if not data:
        return 0, 0
    start = _place(data, rng)
    return start, min(len(data), start + int(rng.integers(1, 65)))
