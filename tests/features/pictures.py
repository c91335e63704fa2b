"""Small images with known answers."""

import numpy as np

from pmlda.types import Image


def picture(pixels, valid=None, name="test"):
    """An Image of an array (H, W) or (H, W, B)."""
    pixels = np.asarray(pixels)
    pixels = pixels[:, :, None] if pixels.ndim == 2 else pixels
    valid = np.ones(pixels.shape[:2], bool) if valid is None else valid
    return Image(pixels, valid, tuple(f"b{i}" for i in range(pixels.shape[2])), name)


def flat(n_bands, shape=(40, 50)):
    """One colour everywhere."""
    colour = np.array([51, 102, 204, 30, 60])[:n_bands]
    return np.broadcast_to(colour, (*shape, n_bands)).astype(np.uint8)


def noise(shape, seed=0):
    """8-bit white noise."""
    return np.random.default_rng(seed).integers(0, 256, shape).astype(np.uint8)


def wave(side, wavelength, angle, amplitude=0.4):
    """(side, side) plane wave around 0.5 that runs along the angle, 0 being to the right."""
    y, x = np.indices((side, side))
    phase = 2 * np.pi * (x * np.cos(angle) + y * np.sin(angle)) / wavelength
    return 0.5 + amplitude * np.sin(phase)
