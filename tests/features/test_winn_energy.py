"""winn:energy: filter responses squared and averaged, so that textures have no gaps."""

import numpy as np

from pmlda.features import compute_features
from tests.features.pictures import flat, noise, picture, wave


def bands(spec, pixels):
    """(H, W, 8) the Laplacians and derivatives."""
    return compute_features(spec, picture(pixels)).values[..., -8:]


def test_energies_of_a_wave_have_no_gaps_where_its_response_crosses_zero():
    pixels = np.rint(255 * wave(64, 8, 0.3)).astype(np.uint8)
    inside = np.s_[16:-16, 16:-16, 2]  # the Laplacian of width 4, where the border is out of reach
    energy, plain = bands("winn:energy", pixels)[inside], bands("winn", pixels)[inside]
    assert plain.min() < 0.1 * plain.max()
    assert energy.min() > 0.8 * energy.max()


def test_energies_differ_from_sizes_in_nothing_but_the_average():
    pixels = noise((40, 40))
    signed = bands("winn:signed", pixels).astype(np.float64)
    energy = np.expm1(bands("winn:energy", pixels).astype(np.float64)) ** 2
    assert np.allclose(energy.mean(axis=(0, 1)), (signed**2).mean(axis=(0, 1)), rtol=0.1)


def test_a_flat_picture_has_no_energy_and_keeps_its_colour():
    values = compute_features("winn:energy", picture(flat(3))).values
    assert np.abs(values[..., -8:]).max() < 1e-3
    assert np.array_equal(values[..., :9], compute_features("winn", picture(flat(3))).values[..., :9])
