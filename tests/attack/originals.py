"""Good inputs of every kind that the program reads, small, as files in a folder."""

import json
import os
import shutil
import subprocess
import time
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import rasterio
import rasterio.shutil
import scipy.io
import tifffile
import zarr
from PIL import Image as Pillow
from rasterio import Affine

from pmlda.evaluation.scenes import smooth_scene
from pmlda.storage.digest import digest
from tests.attack.mutators import to_json
from tests.attack.server import QUICK, ROOT, UNDISTURBED_SECONDS, Server
from tests.images.pictures import PLACE, UTM, write_envi, write_raster
from tests.program import command

SHAPE = (36, 40)  # several strips, tiles and chunks of 16, none of them full at the border
PIXELS = smooth_scene(*SHAPE, 2, 0.1, 0)[0]
PLANES = np.random.default_rng(0).normal(size=(*SHAPE, 5)).astype(np.float32)
WITH_GAPS = np.where(np.arange(SHAPE[1])[:, None] < 4, np.float32(np.nan), PLANES)


def png(path: Path) -> None:
    Pillow.fromarray(PIXELS).save(path)


def strokes(path: Path) -> None:
    """A stroke of every kind."""
    drawn = [
        {"topic": "sand", "points": [[3, 4], [9.5, 4]], "radius": 1.5, "strength": 50},
        {"shares": {"sand": 0.25, "2": 0.75}, "lines": [[[3, 12], [9, 12]], [[12, 15]]]},
        {"topic": 2, "contains": True, "polygon": [[[0, 0], [16, 0], [16, 16], [0, 16]]]},
    ]
    path.write_text(json.dumps({"names": ["sand", "rock"], "strokes": drawn}), encoding="utf-8")


def label_image(path: Path) -> None:
    labels = np.zeros(SHAPE, np.uint8)
    labels[2:6, 2:6], labels[10:12, 8:20] = 1, 2
    Pillow.fromarray(labels).save(path)


def png_with_alpha(path: Path) -> None:
    alpha = np.where(np.arange(SHAPE[1]) < 5, 0, 255) * np.ones(SHAPE, int)
    Pillow.fromarray(np.dstack([PIXELS, alpha]).astype(np.uint8)).save(path)


def png_with_palette(path: Path) -> None:
    Pillow.fromarray(PIXELS).quantize(16).save(path)


def jpeg(path: Path) -> None:
    Pillow.fromarray(PIXELS).save(path, quality=90)


def strips(path: Path) -> None:
    tifffile.imwrite(path, PIXELS, photometric="rgb", rowsperstrip=16)


def tiles(path: Path) -> None:
    tifffile.imwrite(path, PIXELS, photometric="rgb", tile=(16, 16))


def planar(path: Path) -> None:
    cube = np.moveaxis(PLANES, 2, 0)
    tifffile.imwrite(path, cube, photometric="minisblack", planarconfig="separate", rowsperstrip=16)


def pages(path: Path) -> None:
    tifffile.imwrite(path, np.moveaxis(PIXELS, 2, 0), photometric="minisblack", metadata=None)


def packed(path: Path) -> None:
    write_raster(path, PIXELS, compress="deflate", tiled=True, blockxsize=16, blockysize=16, predictor=2)


def lzw(path: Path) -> None:
    write_raster(path, PIXELS, compress="lzw", blockysize=16)


def placed(path: Path) -> None:

    cube = np.where(np.arange(SHAPE[1])[:, None] < 4, -9999, (100 * PLANES)).astype(np.int16)
    place = {"crs": UTM, "transform": Affine(*PLACE.transform), "nodata": -9999}
    write_raster(path, cube, names=[f"band {index}" for index in range(5)], **place)


def envi(path: Path) -> None:
    write_envi(path, PLANES, ["wavelength = { 400, 500, 600, 700, 800 }", "bbl = { 1, 1, 0, 1, 1 }"])


def library(path: Path) -> None:
    """The spectra of two materials, for the four good bands of the cube above, as CSV and as an ENVI library."""
    spectra = PLANES[:2, 0, :4].astype(np.float32)
    rows = [f"{band + 1},{a},{b}" for band, (a, b) in enumerate(spectra.T)]
    path.with_suffix(".csv").write_text("\n".join(["band,water,soil", *rows]) + "\n", encoding="utf-8")
    path.with_suffix(".sli").write_bytes(spectra.tobytes())
    header = ["ENVI", "samples = 4", "lines = 2", "bands = 1", "header offset = 0", "data type = 4", "byte order = 0"]
    header += ["file type = ENVI Spectral Library", "spectra names = {water, soil}"]
    path.with_suffix(".hdr").write_text("\n".join(header) + "\n", encoding="utf-8")


def npy(path: Path) -> None:
    np.save(path, WITH_GAPS)


def npz(path: Path) -> None:
    np.savez_compressed(path, picture=PIXELS)


def mat(path: Path) -> None:
    scipy.io.savemat(path, {"picture": PLANES}, do_compression=True)


def netcdf(path: Path) -> None:
    with scipy.io.netcdf_file(path, "w") as file:
        for name, length in zip("yx", SHAPE, strict=True):
            file.createDimension(name, length)
            file.createVariable(name, "d", (name,))[:] = np.arange(length, dtype=float)
        file.createVariable("height", "f", ("y", "x"))[:] = PLANES[:, :, 0]


def hdf5(path: Path) -> None:
    """A NetCDF file of version 4, which is an HDF5 file."""
    raster = write_raster(path.with_suffix(".tif"), PLANES[:, :, :1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rasterio.shutil.copy(raster, path.with_suffix(".nc"), driver="netCDF", FORMAT="NC4", WRITE_BOTTOMUP="NO")
    path.with_suffix(".nc").rename(path)
    raster.unlink()


STACK = np.stack([PIXELS // 2, PIXELS])


def ome_stack(path: Path) -> None:
    options = {"compression": "zlib", "rowsperstrip": 16, "photometric": "minisblack"}
    tifffile.imwrite(path, np.moveaxis(STACK, 3, 1), ome=True, metadata={"axes": "ZCYX"}, **options)


def hdf5_stack(path: Path) -> None:
    with h5py.File(path, "w") as file:
        stack = file.create_dataset("stack", data=STACK, chunks=(1, 16, 16, 3))
        for axis, name in enumerate("zyxc"):
            stack.dims[axis].label = name


def zarr_store(path: Path, version: int = 3) -> None:
    array = zarr.create_array(path, shape=PLANES.shape, chunks=(16, 16, 5), dtype="float32", zarr_format=version)
    array[:] = WITH_GAPS


def zarr_group(path: Path) -> None:
    group = zarr.create_group(path, zarr_format=3)
    array = group.create_array("picture", shape=PIXELS.shape, chunks=(16, 16, 3), dtype="uint8")
    array[:] = PIXELS


def zarr_2(path: Path) -> None:
    zarr_store(path, 2)


PICTURES: dict[str, tuple[str, Callable[[Path], Any]]] = {
    "png": ("a.png", png),
    "png with alpha": ("a.png", png_with_alpha),
    "png with palette": ("a.png", png_with_palette),
    "jpeg": ("a.jpg", jpeg),
    "tiff in strips": ("a.tif", strips),
    "tiff in tiles": ("a.tif", tiles),
    "tiff in planes": ("a.tif", planar),
    "tiff of pages": ("a.tif", pages),
    "tiff, deflate": ("a.tif", packed),
    "tiff, lzw": ("a.tif", lzw),
    "geotiff": ("a.tif", placed),
    "envi": ("a.img", envi),
    "npy": ("a.npy", npy),
    "npz": ("a.npz", npz),
    "mat": ("a.mat", mat),
    "netcdf": ("a.nc", netcdf),
    "hdf5": ("a.h5", hdf5),
    "zarr": ("a.zarr", zarr_store),
    "zarr 2": ("a.zarr", zarr_2),
    "zarr group": ("a.zarr", zarr_group),
}


# ── results, and runs that were killed ─────────────────────────────────────────────────────────────────────────────
SETTINGS = "topics = 2\ndocuments = 'windows:8'\nrefits = 0\nblend = 0.5\nfeatures = 'color'\nseed = 3\nalpha = 1.0\n"
TILES = (*QUICK[:4], "--features", "color+texture", "--set", "block=64", "--set", "refits=3", "--jobs", "1", "--json")
SAMPLER = (*QUICK, "--engine", "gibbs", "--set", "sweeps=200", "--set", "design_effect=1", "--jobs", "1")
# What is on disk of a run when it is killed.
SIGNS = {"maps.zarr": "parts/documents/*/*.pmlda", "maps": "checkpoints/chain-2-*.checkpoint"}


def write_result(server: Server, place: Path) -> None:
    """A folder "result" beside its picture a.png."""
    png(place / "a.png")
    words = ["segment", "a.png", *QUICK, "--jobs", "1", "--out", "result"]
    done = server.run(words, place, seconds=UNDISTURBED_SECONDS)
    assert done.code == 0, done.said


def write_tiled_result(server: Server, place: Path) -> None:
    """A group result.zarr beside its picture a.png."""
    png(place / "a.png")
    words = ["segment", "a.png", *QUICK, "--jobs", "1", "--out", "result.zarr"]
    done = server.run(words, place, seconds=UNDISTURBED_SECONDS)
    assert done.code == 0, done.said


def run_words(out: str) -> list[str]:
    """The command whose run is killed: tile by tile, or in memory with checkpoints."""
    more = [*SAMPLER, "--checkpoint", "0.001"] if out == "maps" else [*TILES]
    return ["segment", "a.png", *more, "--out", out]


def write_run(server: Server, place: Path, out: str) -> None:
    """The folder of a run that was killed, beside its picture, and in "whole" what an undisturbed run writes."""
    Pillow.fromarray(smooth_scene(100, 130, 2, 0.2, 0)[0] if out != "maps" else PIXELS).save(place / "a.png")
    whole = "whole" + Path(out).suffix
    done = server.run([*run_words(out)[:-1], whole], place, seconds=UNDISTURBED_SECONDS)
    assert done.code == 0, done.said
    run = place / f"{out}.run"
    for _ in range(5):
        kill_at(place, run_words(out), SIGNS[out])
        if run.exists():
            return
        shutil.rmtree(place / out)
    raise RuntimeError(f"No run to {out} could be killed in time.")


def kill_at(place: Path, words: list[str], sign: str) -> None:
    """The command in a process of its own, killed as soon as a file of that kind is in the folder of its run."""
    path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(command(*words), cwd=place, env=os.environ | {"PYTHONPATH": path}, **quiet)
    run = place / f"{words[-1]}.run"
    while process.poll() is None and not next(run.glob(sign), None):
        time.sleep(0.001)
    process.kill()
    process.wait()


def reseal(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """A request that was changed and sealed again, as somebody would who means harm."""
    table = json.loads(path.read_text(encoding="utf-8"))
    table.pop("sha256")
    changed = change(table)
    try:
        sealed = changed | {"sha256": digest(changed)}
    except (TypeError, ValueError, RecursionError):  # what has no digest cannot be sealed
        sealed = changed
    path.write_bytes(to_json(sealed))


def rewrite_archive(path: Path, change: Callable[[dict[str, bytes]], dict[str, bytes]]) -> None:
    """A model file whose entries were changed, with zip's own checksums right."""
    with zipfile.ZipFile(path) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in change(entries).items():
            archive.writestr(name, data)
