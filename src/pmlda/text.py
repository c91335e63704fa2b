"""Untrusted texts, such as names of files → texts that can be shown and written anywhere.

On its own, so that the command starts without NumPy.
"""

import re

# Halves of characters that no name of a file can have brought: those of bytes are U+DC80 to U+DCFF.
STRAY_HALVES = re.compile("[\ud800-\udc7f\udd00-\udfff]")


def printable(text: str) -> str:
    r"""The text in one line, with whatever cannot be shown spelt as repr() does: control characters, bytes of a name.

    A terminal obeys control characters, and a byte that is not UTF-8 can be encoded nowhere.

    >>> print(printable("a\x1b]0;x\x07b\n"), printable("caf\udce9 \ud800"), printable("caf\udcc3\udca9"))
    a\x1b]0;x\x07b\n caf\xe9 \ud800 café
    """
    halves = STRAY_HALVES.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
    known = halves.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in known)
