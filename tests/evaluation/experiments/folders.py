"""Made-up pictures in folders like those of real data."""

import json

import numpy as np
from PIL import Image as Pillow

from pmlda.evaluation.scenes import seabed, sunset

# Flat, ripple, bright of the seabed → flat, rock, ripple of the strips.
STRIP_CLASSES = np.array([0, 2, 1], np.uint8)


def write_sonar(folder):
    """One sidescan strip, one snippet with rectangles and the authors' picture, 96 pixels wide."""
    picture, truth = seabed(96, 0)
    (folder / "sidescan" / "dev").mkdir(parents=True)
    Pillow.fromarray(picture).save(folder / "sidescan" / "dev" / "strip.png")
    labels = Pillow.fromarray(STRIP_CLASSES[truth.argmax(axis=2)])
    labels.putpalette([0, 0, 0, 255, 0, 0, 0, 255, 0])
    labels.save(folder / "sidescan" / "dev" / "strip_gt.png")
    (folder / "sas" / "dev").mkdir(parents=True)
    Pillow.fromarray(picture).save(folder / "sas" / "dev" / "snippet.png")
    rectangles = {"ripple": [[4, 40, 4, 40]], "bright_flat": [[50, 90, 50, 90]], "transition": [[40, 50, 40, 50]]}
    write_regions(folder / "sas" / "weak_regions.json", {"snippet": rectangles})
    np.savez(folder / "sas_hf.npz", image=picture / 255.0, superpixels=np.indices((96, 96))[0] // 24)
    write_regions(folder / "sas_hf_weak_regions.json", {"sas_hf": rectangles | {"dark_flat": [[4, 40, 50, 90]]}})
    return folder


def write_regions(path, regions):
    path.write_text(json.dumps({"regions": regions}), encoding="utf-8")


def write_authors(folder):
    """The authors' sunset and sonar: pictures, superpixels, and features with the bands first."""
    picture, truth = sunset(48, 64, 0)
    row, column = np.indices((48, 64))
    # Windows in a pattern of bricks, so that three of them meet.
    superpixels = row // 16 * 3 + (column + row // 16 % 2 * 11) // 26
    Pillow.fromarray(picture).resize((128, 96)).save(folder / "sunset1.jpg")
    features = np.moveaxis(truth, -1, 0) + 0.02 * np.random.default_rng(0).normal(size=(3, 48, 64))
    np.savez(folder / "sunset.npz", rgb=picture, features=features.astype(np.float32), superpixels=superpixels)
    return folder
