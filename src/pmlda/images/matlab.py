"""MATLAB 5 file → nothing, or an error if a packed array in it would unpack to far more than its shape asks for.

SciPy unpacks whatever a packed array claims to hold: four megabytes of zeros become four gigabytes.
"""

import math
import struct
import zlib
from pathlib import Path
from typing import BinaryIO

from pmlda.images.checks import require

HEADER, TAG = 128, 8
PACKED = 15
# What a packed array begins with: the kind of array, its shape and its name. Names have at most 63 letters.
START = 4096
# Bytes of one number, at most; numbers may be complex.
WIDEST = 16
NUMBERS, OPAQUE = range(6, 16), 17  # kinds of arrays


def check_packed(path: Path) -> None:
    """Refuse packed arrays of numbers that are larger than their shape, and names that are no names."""
    with path.open("rb") as file:
        header = file.read(HEADER)
        order = {b"IM": "<", b"MI": ">"}.get(header[126:128])
        if order is None:
            return  # older than MATLAB 5: nothing is packed
        while len(tag := file.read(TAG)) == TAG:
            kind, length = struct.unpack(order + "II", tag)
            after = file.tell() + length
            if kind == PACKED:
                _check_array(file, min(length, START), order, path)
            file.seek(after)


def _check_array(file: BinaryIO, length: int, order: str, path: Path) -> None:
    """Refuse an array that claims to hold more than its shape asks for."""
    start = zlib.decompressobj().decompress(file.read(length), START)
    try:
        sound = _is_sound(start, order)
    except struct.error:  # it ends before its name
        sound = False
    require(sound, f"{path} has a packed array that claims more than its shape asks for. It is damaged; get it again.")


def _is_sound(start: bytes, order: str) -> bool:
    """Whether the length and the name of an array are possible: its tag, 16 bytes of flags, its shape, its name."""
    _, claimed, _, _, flags, _, _, n_bytes = struct.unpack_from(f"{order}8I", start)
    kind = flags & 255
    if kind == OPAQUE:  # an object, which is never read
        return True
    shape = struct.unpack_from(f"{order}{n_bytes // 4}i", start, 32)
    name_kind, name_length = struct.unpack_from(f"{order}2I", start, 32 + n_bytes + (-n_bytes) % 8)
    is_short = name_kind >> 16 != 0  # at most four letters, in the place of the length
    fits = kind not in NUMBERS or claimed <= math.prod(max(n, 0) for n in shape) * WIDEST + START
    return bool(fits and (is_short or name_length <= START))
