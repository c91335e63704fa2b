"""A secret of the account that runs the program, and keys that follow from it.

What a run keeps is signed, so that it is known again: numbers from a folder that somebody else has made, or changed,
are never computed with. Who has no folder for the secret, as in some containers, has keys that prove nothing but which
run a file belongs to.
"""

import hmac
import os
import secrets
import stat
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

LENGTH = 32


def key_for(purpose: str) -> bytes:
    """The key of this account for one purpose, such as one run."""
    return hmac.digest(_secret(), purpose.encode("utf-8", "surrogateescape"), "sha256")


def sign(key: bytes, data: bytes) -> bytes:
    """What only who has the key can have written below the data."""
    return hmac.digest(key, data, "sha256").hex().encode()


def is_signed(key: bytes, data: bytes, signature: bytes) -> bool:
    """Whether a signature is that of the data."""
    return hmac.compare_digest(sign(key, data), signature)


def secret_path() -> Path:
    """Where the secret is kept."""
    state = os.environ.get("XDG_STATE_HOME")
    return (Path(state) if state else Path.home() / ".local" / "state") / "pmlda" / "key"


@lru_cache(maxsize=1)
def _secret() -> bytes:
    """The secret, made where there is none; empty where none can be kept."""
    try:
        path = secret_path()
        return _read(path) or _make(path)
    except (OSError, RuntimeError):  # nothing can be written, or there is no home
        return b""


def _read(path: Path) -> bytes | None:
    try:
        file = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    except FileNotFoundError:
        return None
    with os.fdopen(file, "rb") as stream:
        about = os.fstat(file)
        data = stream.read(LENGTH) if stat.S_ISREG(about.st_mode) else b""
    return data if len(data) == LENGTH else None


def _make(path: Path) -> bytes:
    """A new secret; if two processes make one at the same time, the first one counts."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}-{secrets.token_hex(4)}")
    file = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(file, "wb") as stream:
        stream.write(secrets.token_bytes(LENGTH))
    try:
        with suppress(FileExistsError):
            os.link(part, path)
    finally:
        part.unlink()
    return _read(path) or b""
