"""Images: path or array + mask → Image (H, W, bands);   maps → a TIFF file;   Image → colours for the screen.

checks ← content ← one reader for each family of formats ← read ← windowed;   write and display stand beside them.
"""

from pmlda.images.display import to_rgb
from pmlda.images.read import read_image
from pmlda.images.size import picture_size
from pmlda.images.windowed import Windowed, open_windowed
from pmlda.images.write import write_labels, write_maps

__all__ = ["Windowed", "open_windowed", "picture_size", "read_image", "to_rgb", "write_labels", "write_maps"]
