"""Made-up pictures with known memberships, to try and to test things on."""

import numpy as np
from numpy.typing import NDArray

from pmlda.validate import choice, require

COLOURS = np.array(
    [
        [0.16, 0.33, 0.52],
        [0.86, 0.77, 0.55],
        [0.32, 0.47, 0.20],
        [0.72, 0.30, 0.26],
        [0.93, 0.93, 0.95],
        [0.10, 0.09, 0.12],
        [0.55, 0.42, 0.66],
        [0.95, 0.62, 0.20],
    ]
)


def smooth_scene(
    height: int, width: int, n_topics: int, noise: float, seed: int
) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
    """(H, W, 3) noisy mixtures of colours, and the memberships (H, W, K): regions with gradual borders between them.

    >>> picture, truth = smooth_scene(32, 48, 3, 0.05, 0)
    >>> picture.shape, bool(np.allclose(truth.sum(axis=2), 1.0, atol=1e-6))
    ((32, 48, 3), True)
    """
    from scipy.ndimage import gaussian_filter

    rng = np.random.default_rng(seed)
    fields = np.stack(
        [gaussian_filter(rng.normal(size=(height, width)), 0.1 * min(height, width)) for _ in range(n_topics)], axis=-1
    )
    fields /= fields.std()
    weights = np.exp(3.0 * fields)
    truth = weights / weights.sum(axis=-1, keepdims=True)
    clean = truth @ COLOURS[:n_topics]
    noisy = np.clip(clean + noise * rng.normal(size=clean.shape), 0.0, 1.0)
    return (255.0 * noisy + 0.5).astype(np.uint8), truth.astype(np.float32)


# A seabed as in synthetic aperture sonar: the share of full brightness that each bottom reflects, the depth of ripples
# in units of their own mean, and the looks of the speckle (its variation is 1/√looks, 0.45 here). Levels, depth,
# wavelength and speckle are those of real snippets, measured on patches of one bottom each.
BOTTOMS = ("flat", "ripple", "bright")
FLAT, RIPPLE, BRIGHT = 0.18, 0.35, 0.50
RIPPLE_DEPTH, RIPPLE_LENGTHS = 0.7, (20.0, 28.0)
LOOKS = 5.0
# How far fields of one bottom reach, in pixels, and how steeply one takes over from another.
REACH, STEEPNESS = 30.0, 3.0


def seabed(size: int, seed: int) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
    """(H, W) sonar intensity of a seabed whose ripples fade out, and the memberships (H, W, 3) of its BOTTOMS.

    Memberships are shares of the ground: what the bottoms of a cell send back adds up, Σ_k z_k r_k, so that ripples
    fade with their share, over tens of pixels. Speckle then multiplies it by a gamma variate. Each bottom has a third
    of the scene.

    >>> picture, truth = seabed(64, 0)
    >>> picture.shape, truth.mean(axis=(0, 1), dtype=float).round(2).tolist()
    ((64, 64), [0.33, 0.33, 0.33])
    """
    rng = np.random.default_rng(seed)
    truth = equal_shares(np.stack([smooth_field(rng, size, REACH) for _ in BOTTOMS], axis=-1))
    length, angle = rng.uniform(*RIPPLE_LENGTHS), rng.uniform(0.0, np.pi)
    row, column = np.indices((size, size))
    along = row * np.sin(angle) + column * np.cos(angle)
    phase = 2.0 * np.pi * along / length + 0.8 * smooth_field(rng, size, length / 2.0)  # crests are not quite straight
    ripples = RIPPLE * (1.0 + RIPPLE_DEPTH * np.cos(phase))
    reflected = truth[..., 0] * FLAT + truth[..., 1] * ripples + truth[..., 2] * BRIGHT
    intensity = reflected * rng.gamma(LOOKS, 1.0 / LOOKS, reflected.shape)
    return (255.0 * np.clip(intensity, 0.0, 1.0) + 0.5).astype(np.uint8), truth.astype(np.float32)


def smooth_field(rng: np.random.Generator, size: int, reach: float) -> NDArray[np.float64]:
    """(H, W) a smooth random field of spread 1."""
    from scipy.ndimage import gaussian_filter

    field = gaussian_filter(rng.normal(size=(size, size)), reach)
    return np.asarray(field / field.std())


def equal_shares(fields: NDArray[np.float64]) -> NDArray[np.float64]:
    """(H, W, K) the softmax of the fields, raised or lowered until each has the same share of the scene."""
    level = np.zeros(fields.shape[-1])
    for _ in range(50):
        weights = np.exp(STEEPNESS * fields + level)
        shares = weights / weights.sum(axis=-1, keepdims=True)
        level -= np.log(len(level) * shares.mean(axis=(0, 1)))
    return np.asarray(shares)


SUNSET = ("sky", "glow", "water")
SUNSET_COLOURS = np.array([[0.10, 0.22, 0.42], [1.00, 0.68, 0.30], [0.06, 0.06, 0.08]])


def sunset(height: int, width: int, seed: int) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
    """(H, W, 3) a sunset over dark water, and the memberships (H, W, 3) in SUNSET: colours mix as memberships do.

    The glow fades into the sky over a third of the picture's height, in streaks; the water begins at a sharp horizon.

    >>> picture, truth = sunset(48, 64, 0)
    >>> picture.shape, bool(np.allclose(truth.sum(axis=2), 1.0, atol=1e-6))
    ((48, 64, 3), True)
    """
    from scipy.ndimage import gaussian_filter

    rng = np.random.default_rng(seed)
    row, column = np.indices((height, width), dtype=np.float64)
    horizon, sun = height * rng.uniform(0.65, 0.8), width * rng.uniform(0.3, 0.7)
    streaks = gaussian_filter(rng.normal(size=(height, width)), (0.02 * height, 0.12 * width))
    away = np.hypot((horizon - row) / height, 0.5 * (column - sun) / width) + 0.04 * streaks / streaks.std()
    glow = 1.0 / (1.0 + np.exp((away - 0.3) / 0.075))
    water = 1.0 / (1.0 + np.exp((horizon - row) / 0.5))
    truth = np.stack([(1.0 - water) * (1.0 - glow), (1.0 - water) * glow, water], axis=-1)
    noisy = truth @ SUNSET_COLOURS + 0.02 * rng.normal(size=(height, width, 3))
    return (255.0 * np.clip(noisy, 0.0, 1.0) + 0.5).astype(np.uint8), truth.astype(np.float32)


# Photographs that come with scikit-image, 512 × 512 each; how they mix; and the side of a patch where they mix by area.
TEXTURES = ("grass", "gravel", "brick")
MIXINGS = ("amplitude", "area")
TEXTURE_SIZE, PATCH = 512, 8


def blended_textures(size: int, mixing: str, seed: int) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
    """(H, W) photographs of TEXTURES blended, and the memberships (H, W, 3), a third of the scene each.

    mixing : "amplitude" adds up pixel values, as where one thing shines through another: Σ_k z_k x_k; "area" gives each
        patch of 8 × 8 pixels to one texture, drawn with probability z at the middle of the patch

    The seed decides on the memberships, and on which part of each photograph is taken and how it is turned.

    >>> picture, truth = blended_textures(64, "area", 0)
    >>> picture.shape, truth.mean(axis=(0, 1), dtype=float).round(2).tolist()
    ((64, 64), [0.33, 0.33, 0.33])
    """
    from skimage import data

    choice("mixing", mixing, MIXINGS)
    require(2 <= size <= TEXTURE_SIZE, f"size={size!r}: the photographs have from 2 to {TEXTURE_SIZE} pixels a side.")
    rng = np.random.default_rng(seed)
    truth = equal_shares(np.stack([smooth_field(rng, size, 0.15 * size) for _ in TEXTURES], axis=-1))
    parts = []
    for name in TEXTURES:
        row, column = rng.integers(0, TEXTURE_SIZE - size + 1, 2)
        part = getattr(data, name)()[row : row + size, column : column + size]
        parts.append(np.rot90(part, int(rng.integers(4))))
    weights = truth if mixing == "amplitude" else _patches(rng, truth)
    blended = (weights * np.stack(parts, axis=-1)).sum(axis=-1)
    return (blended + 0.5).astype(np.uint8), truth.astype(np.float32)


def _patches(rng: np.random.Generator, truth: NDArray[np.float64]) -> NDArray[np.bool_]:
    """(H, W, K) True for the one texture that each patch was given to."""
    size = len(truth)
    patch = np.arange(size) // PATCH
    middle = np.minimum(patch * PATCH + PATCH // 2, size - 1)
    below = np.cumsum(truth[np.ix_(middle, middle)], axis=-1)[..., :-1]
    drawn = rng.random((patch[-1] + 1, patch[-1] + 1))[np.ix_(patch, patch)]
    return np.asarray((drawn[..., None] > below).sum(axis=-1)[..., None] == np.arange(truth.shape[-1]))


# Three dyes as channels see them, on a scale on which their mean is 1; how the numbers of mixed pixels follow from
# theirs; and the spectra of three dyes in eight channels of a lambda stack, each a bump over a little background.
DYES = np.array([[2.82, 0.71, 0.28, 0.42], [0.35, 2.12, 0.71, 0.35], [0.28, 0.42, 0.85, 2.69]])
MEANS = ("arithmetic", "geometric", "harmonic")
CHANNELS, PEAKS, WIDTHS = np.linspace(500.0, 680.0, 8), (525.0, 575.0, 640.0), (28.0, 32.0, 34.0)
EMISSION = np.stack([0.03 + np.exp(-0.5 * ((CHANNELS - at) / w) ** 2) for at, w in zip(PEAKS, WIDTHS, strict=True)])


def mixed_means(shares: NDArray[np.float64], means: NDArray[np.float64], kind: str) -> NDArray[np.float64]:
    """(H, W, B) means of pixels with shares (H, W, K) in topics with means (K, B).

    kind : "arithmetic": what photons and echoes of several things do, they add up; "geometric" as in family poisson;
        "harmonic" as in family gamma
    """
    choice("kind", kind, MEANS)
    if kind == "arithmetic":
        return shares @ means
    return np.exp(shares @ np.log(means)) if kind == "geometric" else 1.0 / (shares @ (1.0 / means))


def photon_counts(size: int, mean: float, kind: str, seed: int) -> tuple[NDArray[np.uint16], NDArray[np.float32]]:
    """(H, W, 4) photons of three DYES in four channels, so many on average, and the memberships (H, W, 3).

    kind : how dyes mix, see mixed_means

    >>> picture, truth = photon_counts(32, 5.0, "arithmetic", 0)
    >>> picture.shape, round(float(picture.mean())), truth.shape
    ((32, 32, 4), 5, (32, 32, 3))
    """
    rng, truth = _three_fields(size, seed)
    return rng.poisson(mixed_means(truth, mean * DYES, kind)).astype(np.uint16), truth.astype(np.float32)


def speckle(size: int, looks: float, kind: str, seed: int) -> tuple[NDArray[np.float64], NDArray[np.float32]]:
    """(H, W, 3) intensities of three channels with speckle of so many looks, and the memberships (H, W, 3).

    kind : how the mean intensities of three surfaces mix, see mixed_means

    >>> picture, _ = speckle(32, 4.0, "harmonic", 0)
    >>> picture.shape, bool(picture.min() > 0)
    ((32, 32, 3), True)
    """
    rng, truth = _three_fields(size, seed)
    mean = mixed_means(truth, 20.0 * DYES[:, :3], kind)
    return mean * rng.gamma(looks, 1.0 / looks, mean.shape), truth.astype(np.float32)


def lambda_stack(size: int, seed: int) -> tuple[NDArray[np.uint16], NDArray[np.float32]]:
    """(H, W, 8) photons of three fluorescent dyes by wavelength, and the memberships (H, W, 3).

    How much dye there is differs from place to place, so that a few places are far brighter than the rest.

    >>> lambda_stack(32, 0)[0].shape
    (32, 32, 8)
    """
    rng, truth = _three_fields(size, seed)
    amount = np.exp(0.6 * smooth_field(rng, size, 0.04 * size))
    return rng.poisson(600.0 * amount[..., None] * (truth @ EMISSION)).astype(np.uint16), truth.astype(np.float32)


def _three_fields(size: int, seed: int) -> tuple[np.random.Generator, NDArray[np.float64]]:
    """Random numbers, and (H, W, 3) shares that change gradually, a third of the scene each."""
    rng = np.random.default_rng(seed)
    return rng, equal_shares(np.stack([smooth_field(rng, size, 0.1 * size) for _ in range(3)], axis=-1))


# Cells in four channels of a microscope: what background, cytoplasm and nucleus send to each, in counts of the camera,
# with bleed-through; the slices of a stack by their distance from the focus; and the largest number of 12 bits.
CELL_PARTS = np.array([[90.0, 110.0, 60.0, 50.0], [180.0, 1100.0, 420.0, 120.0], [3400.0, 320.0, 240.0, 900.0]])
FOCUS, CAMERA = (0.35, 0.7, 1.0, 0.7, 0.35), 4095


def cells(size: int, seed: int) -> tuple[NDArray[np.uint16], NDArray[np.float32]]:
    """(5, 4, H, W) slices and channels of a stack of cells, and the memberships (H, W, 3) in CELL_PARTS.

    Cells differ in brightness, and what is brighter than the camera can tell is clipped.

    >>> stack, truth = cells(48, 0)
    >>> stack.shape, truth.shape, int(stack.max())
    ((5, 4, 48, 48), (48, 48, 3), 4095)
    """
    from scipy.ndimage import gaussian_filter

    rng = np.random.default_rng(seed)
    row, column = np.indices((size, size), dtype=np.float64)
    nucleus, cell, amount = np.zeros((size, size)), np.zeros((size, size)), np.ones((size, size))
    for place in rng.permutation(16)[:12]:
        y, x = size * (np.array(divmod(place, 4)) + 0.5) / 4.0 + rng.normal(scale=0.02 * size, size=2)
        radius, stretch, angle = size * rng.uniform(0.04, 0.055), rng.uniform(1.0, 1.4), rng.uniform(0.0, np.pi)
        along = (column - x) * np.cos(angle) + (row - y) * np.sin(angle)
        across = (row - y) * np.cos(angle) - (column - x) * np.sin(angle)
        away = np.hypot(along / stretch, across * stretch) / radius
        nucleus, cell = np.maximum(nucleus, away < 1.0), np.maximum(cell, away < 2.1)
        amount = np.where(away < 2.1, rng.lognormal(0.0, 0.12), amount)
    nucleus, cell, amount = (gaussian_filter(each, 0.012 * size) for each in (nucleus, cell, amount))
    truth = np.stack([1.0 - cell, cell - nucleus, nucleus], axis=-1)
    light = (truth @ CELL_PARTS) * amount[..., None]
    stack = np.stack([rng.poisson(focus * light) for focus in FOCUS]).transpose(0, 3, 1, 2)
    return np.minimum(stack, CAMERA).astype(np.uint16), truth.astype(np.float32)


N_GENES = 40


def tissue(size: int, seed: int) -> tuple[NDArray[np.uint16], NDArray[np.float32], tuple[str, ...]]:
    """(H, W, 40) counts of genes in spots on a grid, the memberships (H, W, 3) in kinds of cells, and names of genes.

    What the cells of a spot express adds up. Most genes tell nothing; five are markers of each kind.

    >>> counts, truth, genes = tissue(24, 0)
    >>> counts.shape, truth.shape, genes[:2]
    ((24, 24, 40), (24, 24, 3), ('marker 1a', 'marker 1b'))
    """
    rng, truth = _three_fields(size, seed)
    profiles = np.tile(rng.lognormal(-1.0, 0.8, N_GENES), (3, 1))
    names = [f"marker {k + 1}{letter}" for k in range(3) for letter in "abcde"]
    for k in range(3):
        profiles[:, 5 * k : 5 * k + 5] = 0.1
        profiles[k, 5 * k : 5 * k + 5] = rng.lognormal(0.8, 0.3, 5)
    names += [f"gene {number + 1}" for number in range(N_GENES - len(names))]
    return rng.poisson(truth @ profiles).astype(np.uint16), truth.astype(np.float32), tuple(names)
