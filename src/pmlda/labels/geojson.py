"""GeoJSON + the place of a picture on Earth → tables of strokes in coordinates of pixels."""

from typing import Any

import numpy as np

from pmlda.errors import InputError
from pmlda.images.gdal import is_crs
from pmlda.types import Georeference
from pmlda.validate import brief, require

# What properties of a feature may say; whatever else a feature has is left to those who use it.
SAID = ("topic", "shares", "any_of", "contains", "radius", "strength")
# Each kind of geometry: which part of a stroke it becomes, and how deep its lists of points are.
GEOMETRIES = {
    "Point": ("points", 0),
    "MultiPoint": ("lines", 1),
    "LineString": ("points", 1),
    "MultiLineString": ("lines", 2),
    "Polygon": ("polygon", 2),
    "MultiPolygon": ("polygon", 3),
}


def is_geojson(content: Any) -> bool:
    """Whether JSON is GeoJSON rather than strokes."""
    return isinstance(content, dict) and content.get("type") in ("FeatureCollection", "Feature")


def to_strokes(content: dict[str, Any], place: Georeference | None, name: str) -> list[tuple[str, dict[str, Any]]]:
    """What to call each feature, and the table of its stroke. name : of the file"""
    require(
        place is not None,
        f"{name} is GeoJSON, whose coordinates are places on Earth, and the picture has none. "
        "Give a georeferenced picture, or strokes in coordinates of pixels (strokes.json).",
    )
    assert place is not None
    _check_crs(content.get("crs"), place, name)
    features = content.get("features") if content["type"] == "FeatureCollection" else [content]
    require(isinstance(features, list), f"{name} has no list of features. Export it again as GeoJSON.")
    found = []
    for number, feature in enumerate(features or []):
        what = f"Feature {number + 1} of {name}"
        found.append((what, _stroke_of(feature, place, what)))
    return found


def _check_crs(crs: Any, place: Georeference, name: str) -> None:
    """Refuse coordinates of another system than the picture's."""
    if crs is None:
        return
    try:
        named = crs["properties"]["name"]
    except (TypeError, LookupError):
        named = crs
    require(
        not place.crs or (isinstance(named, str) and is_crs(named, place.crs)),
        f"{name} has coordinates in {brief(named)}, which is not the coordinate system of the picture. "
        "Export it again in that of the picture.",
    )


def _stroke_of(feature: Any, place: Georeference, what: str) -> dict[str, Any]:
    """The table of a stroke, not yet checked."""
    try:
        geometry, properties = feature["geometry"], feature["properties"] or {}
        kind, coordinates = geometry["type"], geometry["coordinates"]
        said = {name: properties[name] for name in SAID if properties.get(name) is not None}
    except (TypeError, LookupError, AttributeError):
        raise InputError(
            f"{what} has no geometry with coordinates, or no properties. Export it again as GeoJSON."
        ) from None
    require(
        isinstance(kind, str) and kind in GEOMETRIES,
        f"{what} is a {brief(kind)}. Give one of {', '.join(GEOMETRIES)}.",
    )
    part, depth = GEOMETRIES[kind]
    try:
        points = _to_pixels(coordinates, depth, place)
        if "radius" in said:
            said["radius"] = float(said["radius"]) / _pixel_side(place)
    except (TypeError, ValueError, LookupError, OverflowError):
        raise InputError(f"{what} has coordinates or a radius that are no numbers. Export it again.") from None
    if kind == "MultiPoint":
        points = [[point] for point in points]
    if kind == "MultiPolygon":  # what is inside an odd number of all rings is inside one of the polygons
        points = [ring for polygon in points for ring in polygon]
    return said | {part: points}


def _to_pixels(coordinates: Any, depth: int, place: Georeference) -> Any:
    """Coordinates on Earth, in lists of this depth → of pixels, whose centres are at whole numbers."""
    if depth > 1:
        return [_to_pixels(each, depth - 1, place) for each in coordinates]
    a, b, c, d, e, f = place.transform
    points = coordinates if depth else [coordinates]
    on_earth = np.array([[float(point[0]), float(point[1])] for point in points]).reshape(-1, 2)
    corners = np.linalg.solve(np.array([[a, b], [d, e]]), (on_earth - (c, f)).T).T
    return (corners - 0.5).tolist()


def _pixel_side(place: Georeference) -> float:
    """The side of a square as large as a pixel."""
    a, b, _, d, e, _ = place.transform
    return float(np.sqrt(abs(a * e - b * d)))
