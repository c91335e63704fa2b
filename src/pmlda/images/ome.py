"""Names, size of pixels and colours of maps → OME-XML, from which readers such as Bio-Formats take channels."""

import re
from collections.abc import Sequence
from xml.etree import ElementTree

from pmlda.types import PixelSize

SCHEMA = "http://www.openmicroscopy.org/Schemas/OME/2016-06"
PIXEL_TYPES = {"float32": "float", "float64": "double", "int32": "int32", "int16": "int16", "uint8": "uint8"}
# What no XML can hold: control characters, and halves of characters.
NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def describe_ome(
    shape: Sequence[int],
    dtype: str,
    names: Sequence[str],
    *,
    title: str = "",
    description: str = "",
    pixel_size: PixelSize | None = None,
    colours: Sequence[Sequence[float]] | None = None,
) -> bytes:
    """The OME-XML of one picture (H, W, K), its channels in the order of the pages of the file.

    colours : (K, 3) red, green and blue of each channel, from 0 to 1

    >>> text = describe_ome((2, 3, 1), "float32", ["sand & mud"])
    >>> b'Channel ID="Channel:0:0" SamplesPerPixel="1" Name="sand &amp; mud"' in text
    True
    """
    root = ElementTree.Element("OME", {"xmlns": SCHEMA, "Creator": "pmlda"})
    image = ElementTree.SubElement(root, "Image", ID="Image:0", Name=_legible(title))
    if description:
        ElementTree.SubElement(image, "Description").text = _legible(description)
    about = {"ID": "Pixels:0", "DimensionOrder": "XYCZT", "Type": PIXEL_TYPES[dtype], "BigEndian": "false"}
    lengths = {"X": shape[1], "Y": shape[0], "C": len(names), "Z": 1, "T": 1}
    about |= {f"Size{axis}": str(length) for axis, length in lengths.items()}
    if pixel_size is not None:
        for axis, length in (("X", pixel_size.width), ("Y", pixel_size.height)):
            about |= {f"PhysicalSize{axis}": repr(float(length)), f"PhysicalSize{axis}Unit": pixel_size.unit}
    pixels = ElementTree.SubElement(image, "Pixels", about)
    for k, name in enumerate(names):
        channel = {"ID": f"Channel:0:{k}", "SamplesPerPixel": "1", "Name": _legible(name)}
        if colours is not None:
            channel["Color"] = str(_packed_colour(colours[k]))
        ElementTree.SubElement(pixels, "Channel", channel)
    ElementTree.SubElement(pixels, "TiffData", IFD="0", PlaneCount=str(len(names)))
    # Bio-Formats does not read references such as &#181;, so that all characters are written as they are.
    data: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return data


def _legible(text: str) -> str:
    return NOT_XML.sub("\ufffd", str(text))


def _packed_colour(colour: Sequence[float]) -> int:
    """Red, green, blue and opacity in a signed number of 32 bits, as OME has it.

    >>> _packed_colour((1.0, 0.0, 0.0)), _packed_colour((0.0, 0.0, 1.0))
    (-16776961, 65535)
    """
    levels = [round(255 * float(level)) for level in colour]
    return int.from_bytes(bytes([*levels, 255]), "big", signed=True)
