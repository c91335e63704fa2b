"""Good bytes, texts and trees → damaged ones, by a seeded generator. A mutator takes a value and returns another."""

import json
import random
import re
import struct
import sys
import zlib
from collections.abc import Callable
from typing import Any

NUMBERS = (0, 1, -1, 2, 127, 128, 255, 256, 32767, 65535, 65536, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**63 - 1, 2**64)
TEXTS = (
    *(str(number) for number in NUMBERS),
    *("", " ", "nan", "inf", "-inf", "1e400", "-1e-400", "0x10", "1_000", "٣", "true", "null", "None", "{}", "[]"),
    *("../../etc", "/dev/zero", "a\nb", "a\tb", "[bold red]x[/]", "%s%n", "\u202ereversed", "é" * 300, "9" * 5000),
)
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2**31, 2**63, 10**30, 1e308, float("nan"), float("inf"), 0.5),
    *("", "x", "a\nb", "/dev/zero", "9" * 5000, [], {}, [[]], [None], {"": None}, [0] * 1000),
)
DEPTH = 2000
# The most that a damaged file asks for, of settings that make a run long.
MODEST = {"topics": 9, "refits": 9, "sweeps": 1000, "dictionary": 1000}


# ── bytes ──────────────────────────────────────────────────────────────────────────────────────────────────────────
def damage_bytes(data: bytes, rng: random.Random) -> bytes:
    """Bits flipped, a range cut off, doubled, zeroed or exchanged, or a whole number replaced; headers more often."""
    return rng.choice(BYTE_MUTATORS)(data, rng) if data else bytes(rng.randrange(1, 9))


def _place(data: bytes, rng: random.Random, length: int = 1) -> int:
    """A place in the bytes, in half of all cases among the first ones, where headers are."""
    most = max(len(data) - length, 0)
    return rng.randint(0, min(most, 512) if rng.random() < 0.5 else most)


def flip_bits(data: bytes, rng: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 8, 64))):
        changed[_place(data, rng)] ^= 1 << rng.randrange(8)
    return bytes(changed)


def truncate(data: bytes, rng: random.Random) -> bytes:
    return data[: rng.choice((0, 1, 4, 8, len(data) // 2, len(data) - 1, _place(data, rng)))]


def repeat_range(data: bytes, rng: random.Random) -> bytes:
    start = _place(data, rng)
    stop = min(len(data), start + rng.choice((1, 4, 16, 256, 4096)))
    return data[:stop] + data[start:stop] * rng.choice((1, 1, 2, 50)) + data[stop:]


def fill_range(data: bytes, rng: random.Random) -> bytes:
    start = _place(data, rng)
    stop = min(len(data), start + rng.choice((1, 4, 16, 256, 4096)))
    return data[:start] + rng.choice((b"\0", b"\xff")) * (stop - start) + data[stop:]


def drop_range(data: bytes, rng: random.Random) -> bytes:
    start = _place(data, rng)
    return data[:start] + data[start + rng.choice((1, 2, 16, 256)) :]


def swap_ranges(data: bytes, rng: random.Random) -> bytes:
    length = rng.choice((1, 2, 4, 8, 12, 64))
    first, second = sorted((_place(data, rng, length), _place(data, rng, length)))
    second = max(second, first + length)
    one, other = data[first : first + length], data[second : second + length]
    return data[:first] + other + data[first + length : second] + one + data[second + length :]


def replace_number(data: bytes, rng: random.Random) -> bytes:
    """An extreme whole number in either byte order, at an even place."""
    size = rng.choice((1, 2, 4, 8))
    start = _place(data, rng, size) // 2 * 2
    number = rng.choice(NUMBERS) % 2 ** (8 * size)
    return data[:start] + number.to_bytes(size, rng.choice(("little", "big"))) + data[start + size :]


BYTE_MUTATORS: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    flip_bits,
    truncate,
    repeat_range,
    fill_range,
    drop_range,
    swap_ranges,
    replace_number,
    replace_number,
)


def damage_png(data: bytes, rng: random.Random) -> bytes:
    """A chunk is damaged, doubled, dropped or moved, and its checksum is right; or any bytes are damaged."""
    if rng.random() < 0.3:
        return damage_bytes(data, rng)
    chunks, at = [], 8
    while at + 12 <= len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        chunks.append((data[at + 4 : at + 8], data[at + 8 : at + 8 + length]))
        at += length + 12
    index = rng.randrange(len(chunks))
    name, body = chunks[index]
    chunks[index : index + 1] = rng.choice(
        (
            [(name, damage_bytes(body, rng))],
            [(name, damage_bytes(body, rng))],
            [(name, body), (name, body)],
            [],
            [(damage_bytes(name, rng)[:4].ljust(4, b"x"), body)],
        )
    )
    return data[:8] + b"".join(
        struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body)) for name, body in chunks
    )


def damage_tiff(data: bytes, rng: random.Random) -> bytes:
    """A field of an entry of the first directory becomes extreme, or two exchange values; or any bytes are damaged."""
    if rng.random() < 0.3 or data[:4] != b"II*\0":
        return damage_bytes(data, rng)
    (start,) = struct.unpack_from("<I", data, 4)
    (count,) = struct.unpack_from("<H", data, start)
    changed = bytearray(data)
    entries = [start + 2 + 12 * index for index in range(count)]
    entry = rng.choice(entries)
    how = rng.randrange(5)
    if how == 0:
        struct.pack_into("<H", changed, entry + 2, rng.choice((0, 1, 2, 3, 4, 5, 12, 16, 99)))
    elif how == 1:
        struct.pack_into("<I", changed, entry + 4, rng.choice(NUMBERS) % 2**32)
    elif how == 2:
        other = rng.choice(entries)
        changed[entry + 8 : entry + 12], changed[other + 8 : other + 12] = (
            data[other + 8 : other + 12],
            data[entry + 8 : entry + 12],
        )
    elif how == 3:
        _damage_values(changed, entry, rng)
    else:
        struct.pack_into("<I", changed, entry + 8, rng.choice(NUMBERS) % 2**32)
    return bytes(changed)


def _damage_values(changed: bytearray, entry: int, rng: random.Random) -> None:
    """One of the numbers of an entry, such as the offset of one strip."""
    kind, count, at = struct.unpack_from("<HII", changed, entry + 2)
    size = {1: 1, 3: 2, 4: 4, 16: 8}.get(kind, 4)
    at = entry + 8 if size * count <= 4 else at
    place = at + size * rng.randrange(max(1, min(count, 1000)))
    if place + size <= len(changed):
        number = rng.choice((*NUMBERS, len(changed), len(changed) - 1, at)) % 2 ** (8 * size)
        changed[place : place + size] = number.to_bytes(size, "little")


# ── texts ──────────────────────────────────────────────────────────────────────────────────────────────────────────
def damage_text(data: bytes, rng: random.Random) -> bytes:
    """A number or a word becomes an odd one, or lines are dropped, doubled or exchanged; or bytes are damaged."""
    text = data.decode(errors="replace")
    lines = text.split("\n")
    how, index = rng.randrange(8), rng.randrange(len(lines))
    if how == 0:
        return damage_bytes(data, rng)
    if how == 1:
        del lines[index]
    elif how == 2:
        lines[index:index] = [lines[index]] * rng.choice((1, 1, 1000))
    elif how == 3:
        other = rng.randrange(len(lines))
        lines[index], lines[other] = lines[other], lines[index]
    else:
        found = list(re.finditer(r"-?\d+(\.\d+)?|\w+", text))
        if found:
            match = rng.choice(found)
            return (text[: match.start()] + rng.choice(TEXTS) + text[match.end() :]).encode()
    return "\n".join(lines).encode()


def without_long_work(text: str) -> str:
    """Settings that are as before, but for numbers that ask for long work, which are made smaller.

    Whoever asks for long work gets it, and that is no fault. Numbers of more digits are refused, and stay.
    """
    names = "|".join(MODEST)
    return re.sub(
        rf"\b({names})(\W{{1,5}})(\d{{1,10}})(?!\d)",
        lambda found: f"{found[1]}{found[2]}{min(int(found[3]), MODEST[found[1]])}",
        text,
    )


# ── trees ──────────────────────────────────────────────────────────────────────────────────────────────────────────
def damage_tree(tree: Any, rng: random.Random) -> Any:
    """One node of a tree of tables and lists becomes another value, vanishes, moves, doubles, or is nested deeply."""
    tree = json.loads(json.dumps(tree))
    places = list(_places(tree))
    if not places:
        return rng.choice(VALUES)
    holder, key = rng.choice(places)
    how = rng.randrange(6)
    if how == 0:
        del holder[key]
    elif how == 1:
        other, place = rng.choice(places)
        holder[key], other[place] = json.loads(json.dumps([other[place], holder[key]]))
    elif how == 2 and isinstance(holder, dict):
        holder[rng.choice((*TEXTS, "object", "array", "float", "table"))] = holder.pop(key)
    elif how == 3 and isinstance(holder[key], int | float) and not isinstance(holder[key], bool):
        holder[key] = rng.choice((holder[key] + 1, -holder[key], holder[key] * 1000003, 0))
    elif how == 4 and rng.random() < 0.3:
        holder[key] = nested(rng.choice((50, DEPTH)))
    else:
        holder[key] = rng.choice(VALUES)
    return tree


def _places(tree: Any) -> Any:
    """(table or list, key or index) of every node below the root."""
    keys = list(tree) if isinstance(tree, dict) else range(len(tree)) if isinstance(tree, list) else ()
    for key in keys:
        yield tree, key
        yield from _places(tree[key])


def nested(depth: int) -> list[Any]:
    """A list in a list in a list …"""
    inner: list[Any] = []
    for _ in range(depth):
        inner = [inner]
    return inner


def to_json(tree: Any, depth: int = 10 * DEPTH) -> bytes:
    """JSON of a tree that may be nested more deeply than Python likes."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(depth)
    try:
        return json.dumps(tree).encode()
    finally:
        sys.setrecursionlimit(before)


def damage_json(data: bytes, rng: random.Random) -> bytes:
    """A tree as JSON whose nodes are damaged; or its text is."""
    if rng.random() < 0.25:
        return damage_text(data, rng)
    return to_json(damage_tree(json.loads(data), rng))
