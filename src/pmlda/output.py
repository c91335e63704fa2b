"""Output folder: a segmentation → maps, figures, report, model, settings and a record of the run. All or nothing."""

import hashlib
import json
import os
import platform
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from pmlda import figures, files
from pmlda.config import make_settings, write_settings
from pmlda.estimator import PMLDA
from pmlda.features import Features
from pmlda.features.scaling import Scaling
from pmlda.images import to_rgb, write_maps
from pmlda.peers import Peer, find_peer
from pmlda.segmentation import Chain, Segmentation
from pmlda.types import Image

LIBRARIES = ("pmlda", "numpy", "scipy", "scikit-learn", "scikit-image", "numba")


class OutputError(ValueError):
    """A folder that cannot be written, and why."""


def save(segmentation: Segmentation, folder: str | Path, *, overwrite: bool = False) -> Path:
    """Write everything into a new folder next to the one asked for, then give it that name."""
    with new_folder(folder, overwrite=overwrite) as here:
        save_chain(here / "model.pmlda", segmentation.chain)
        (here / "settings.toml").write_text(write_settings(segmentation.settings), encoding="utf-8")
        (here / "run.json").write_text(json.dumps(run_record(segmentation), indent=1) + "\n", encoding="utf-8")
        for index, image in enumerate(segmentation.images):
            each = here / picture_name(segmentation, index) if segmentation.several else here
            each.mkdir(exist_ok=True)
            save_picture(segmentation, index, image, each)
    return Path(folder)


def check_folder(folder: str | Path, *, overwrite: bool = False) -> None:
    """Refuse early what save would refuse late."""
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        raise OutputError(f"{str(folder)!r} is a file. Give the name of a folder.")
    if folder.is_dir() and any(folder.iterdir()) and not overwrite:
        raise OutputError(f"The folder {str(folder)!r} is not empty. Give another one, or allow it to be replaced.")
    parent = folder.resolve().parent
    if not parent.is_dir():
        raise OutputError(f"The folder {str(parent)!r} does not exist. Make it first.")
    if not os.access(parent, os.W_OK):
        raise OutputError(f"The folder {str(parent)!r} cannot be written to. Choose another place.")


@contextmanager
def new_folder(folder: str | Path, *, overwrite: bool) -> Iterator[Path]:
    """A folder that takes its name when all of it is written, and vanishes when something goes wrong."""
    check_folder(folder, overwrite=overwrite)
    final = Path(folder).resolve()
    token = secrets.token_hex(4)
    temporary, old = final.parent / f".{final.name}-{token}.part", final.parent / f".{final.name}-{token}.old"
    try:
        temporary.mkdir()
        yield temporary
        if final.exists():
            final.rename(old)
        temporary.rename(final)
    except BaseException as error:
        shutil.rmtree(temporary, ignore_errors=True)
        if old.exists() and not final.exists():
            old.rename(final)
        if isinstance(error, OSError):
            raise OutputError(f"{str(folder)!r} could not be written: {error.strerror or error}.") from None
        raise
    shutil.rmtree(old, ignore_errors=True)


def save_picture(segmentation: Segmentation, index: int, image: Image, folder: Path) -> None:
    """What belongs to one picture."""
    from pmlda.report import write_report

    maps, names = segmentation.membership_maps[index], segmentation.topic_names
    settings = segmentation.settings
    write_maps(folder / "memberships.tif", maps, names, valid=image.valid, georeference=image.georeference)
    _png(folder / "labels.png", figures.indexed_labels(maps))
    picture = to_rgb(image)
    _png(folder / "transition.png", figures.transition_picture(picture, maps, settings.low, settings.high))
    (folder / "maps").mkdir()
    for k, name in enumerate(names):
        _png(folder / "maps" / f"{name.replace(' ', '-')}.png", figures.indexed_map(maps[..., k]))
    _png(folder / "maps" / "mixed.png", figures.composite(maps))
    doubt = segmentation.uncertainty_maps[index].max(axis=2)
    _png(folder / "maps" / "uncertainty.png", figures.indexed_map(np.clip(doubt / 0.5, 0.0, 1.0), "magma"))
    figures.overview(segmentation, index).savefig(folder / "figure.png")
    write_report(segmentation, index, folder / "report.html")


def _png(path: Path, picture: figures.Picture | figures.Indexed) -> None:
    from PIL import Image as Pillow

    if isinstance(picture, figures.Indexed):
        drawn = Pillow.fromarray(picture.levels)
        drawn.putpalette(picture.palette.tobytes())
    else:
        drawn = Pillow.fromarray(picture)
    # Level 3 takes a third of the time of Pillow's 6 for a twelfth more bytes.
    drawn.save(path, compress_level=3)


def picture_name(segmentation: Segmentation, index: int) -> str:
    """A folder's name for one of several pictures, unlike all others."""
    stem = Path(segmentation.images[index].name).stem or "picture"
    return f"{index + 1:03d}-{stem}"


def run_record(segmentation: Segmentation) -> dict[str, Any]:
    """What was done, with what, on what, how long it took, and whether it settled."""
    model = segmentation.chain.model
    return {
        "settings": segmentation.settings.model_dump(),
        "features": list(segmentation.feature_names),
        "seed": int(model.seed_),
        "sweeps": int(model.n_iter_),
        "verdict": segmentation.verdict,
        "seconds": {name: round(value, 3) for name, value in segmentation.timings.items()},
        "pictures": [
            {
                "name": image.name,
                "shape": list(image.pixels.shape),
                "pixels_without_data": int((~image.valid).sum()),
                "sha256": hashlib.sha256(np.ascontiguousarray(image.pixels).tobytes()).hexdigest(),
                "notes": list(image.notes),
            }
            for image in segmentation.images
        ],
        "versions": {"python": platform.python_version()} | {name: version(name) for name in LIBRARIES},
        "written": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def save_chain(path: Path, chain: Chain) -> None:
    """A model file that PMLDA.load reads too, if it is one; beside the model it holds how pixels become words."""
    picture = {
        "features": chain.features.state(),
        "scaling": chain.scaling.state(),
        "order": chain.order,
        "settings": chain.settings.model_dump(),
    }
    files.save(path, chain.model.to_content(rows=False) | {"picture": picture})


def load_model(path: str | Path) -> PMLDA | Peer:
    """The model in a model file, whichever it is. Safe for files from strangers."""
    content = files.load(path)
    with usable(path):
        return model_of(content)


def model_of(content: dict[str, Any]) -> PMLDA | Peer:
    name = content.get("model", "pmlda")
    return PMLDA.from_content(content) if name == "pmlda" else find_peer(name).from_content(content)


@contextmanager
def usable(path: str | Path) -> Iterator[None]:
    """One error for whatever is wrong with the content of a model file."""
    try:
        yield
    except (LookupError, TypeError, AttributeError, ValueError, np.linalg.LinAlgError) as error:
        raise files.ModelFileError(
            f"{str(path)!r} is not a usable model file: it lacks something or has too much ({error})."
        ) from None


def load_chain(path: str | Path) -> Chain:
    """What save_chain wrote. Safe for files from strangers."""
    content = files.load(path)
    if "picture" not in content:
        raise files.ModelFileError(
            f"{str(path)!r} holds a model but not how pixels become words, so it cannot be applied to a picture. "
            "Use a model.pmlda from the folder of `pmlda segment`."
        )
    with usable(path):
        picture = content["picture"]
        order = np.asarray(picture["order"], dtype=np.int64)
        model = model_of(content)
        if sorted(order.tolist()) != list(range(model.n_components)):
            raise ValueError("its order of topics is not one")
        return Chain(
            Features.from_state(picture["features"]),
            Scaling.from_state(picture["scaling"]),
            model,
            order,
            make_settings(picture["settings"]),
        )
