"""Zip files that anyone may have written: what they claim to hold is judged before anything is unpacked.

Unpacking takes at most as much memory as the file is long, and what is packed at most a few times that, or a fixed
amount for small files. Nothing is ever read beyond what was claimed.
"""

import os
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager

from pmlda.errors import PmldaError

# What may be unpacked in all: so many bytes, or so many times the length of the file.
MOST_UNPACKED_BYTES, MOST_RATIO = 2**28, 4
ENCRYPTED = 1  # the bit of a zip entry's flags


@contextmanager
def open_zip(path: str | os.PathLike[str], *, packed: bool = True) -> Iterator[zipfile.ZipFile]:
    """A zip file of modest claims. packed : whether its entries may be deflated, rather than stored as they are."""
    with open(path, "rb") as stream, zipfile.ZipFile(stream) as archive:
        _judge(archive.infolist(), os.fstat(stream.fileno()).st_size, packed=packed)
        yield archive


def read_entry(archive: zipfile.ZipFile, name: str, limit: int) -> bytes:
    """The bytes of an entry, which must not claim more than the limit."""
    claimed = archive.getinfo(name).file_size
    if claimed > limit:
        raise PmldaError(f"its entry {name} of {claimed:,} bytes is larger than the limit of {limit:,} bytes")
    with archive.open(name) as stream:
        return stream.read(claimed)


def _judge(entries: list[zipfile.ZipInfo], n_bytes: int, *, packed: bool) -> None:
    """Refuse entries that are encrypted, packed in other ways, or that overlap, and more bytes than are reasonable."""
    known = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) if packed else (zipfile.ZIP_STORED,)
    for entry in entries:
        is_stored = entry.compress_type == zipfile.ZIP_STORED
        if entry.compress_type not in known or entry.flag_bits & ENCRYPTED:
            raise PmldaError(f"its entry {entry.filename!r} is packed or encrypted in a way that is not used here")
        if is_stored and entry.compress_size != entry.file_size:
            raise PmldaError(f"its entry {entry.filename!r} does not have the size that it claims")
    if sum(entry.compress_size for entry in entries) > n_bytes:
        raise PmldaError("its entries claim more bytes than it has")
    unpacked = sum(entry.file_size for entry in entries if entry.compress_type != zipfile.ZIP_STORED)
    most = max(MOST_UNPACKED_BYTES, MOST_RATIO * n_bytes)
    if unpacked > most:
        raise PmldaError(f"it would unpack to {unpacked:,} bytes, which is larger than the limit of {most:,} bytes")
