"""Labels: what users draw on pictures → labels of pixels and of documents, which are observations for the model.

raster ← strokes ← geojson ← files ← pixels.
"""

from pmlda.labels.pixels import Canvas, PixelLabels, Region, read_labels
from pmlda.labels.strokes import Stroke

__all__ = ["Canvas", "PixelLabels", "Region", "Stroke", "read_labels"]
