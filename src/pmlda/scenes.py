"""Made-up pictures with known memberships, to try and to test things on."""

import numpy as np
from numpy.typing import NDArray

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
