"""A small picture for commands."""

import pytest
from PIL import Image as Pillow

from pmlda.evaluation.scenes import smooth_scene


@pytest.fixture
def picture(tmp_path):
    file = tmp_path / "scene.png"
    Pillow.fromarray(smooth_scene(40, 50, 2, 0.04, 0)[0]).save(file)
    return file
