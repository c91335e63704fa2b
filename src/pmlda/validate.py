"""One value → that value in the right type and shape, or one clear error. Used by everything that users can set."""

import difflib
import numbers
from typing import Any

import numpy as np

from pmlda.errors import InputError
from pmlda.types import FloatArray

# Whole numbers beyond it are not told apart once they are real numbers.
LARGEST_WHOLE = 2**53
# How much rows of shares may differ from a sum of one: they may have been kept in three digits.
ROUNDING = 1e-3


def require(condition: bool, message: str) -> None:
    """Raise InputError with the message unless the condition holds."""
    if not condition:
        raise InputError(message)


def brief(value: Any, most: int = 80) -> str:
    """How Python writes a value, in one line that is not too long.

    >>> brief(np.zeros((2, 2))), brief("x" * 100, most=6)
    ('array([[0., 0.], [0., 0.]])', "'xxxx…")
    """
    try:
        text = " ".join(repr(value).split())
    except (ValueError, RecursionError):  # a number of too many digits, a list of too many lists
        text = f"a {type(value).__name__} of extreme size"
    return text if len(text) <= most else f"{text[: most - 1]}…"


def whole(name: str, value: Any, least: int) -> int:
    """A whole number of at least `least`."""
    is_whole = isinstance(value, numbers.Integral) and not isinstance(value, bool | np.bool_)
    require(is_whole and value >= least, f"{name}={brief(value)}: give a whole number of at least {least}.")
    require(value <= LARGEST_WHOLE, f"{name}={brief(value)}: give a whole number of at most {LARGEST_WHOLE}.")
    return int(value)


def choice(name: str, value: Any, choices: tuple[str, ...]) -> None:
    """One of the texts in choices."""
    known = isinstance(value, str) and value in choices
    require(known, f"{name}={brief(value)} is not known. Choose one of {list(choices)}.")


def real_array(name: str, value: Any, *shapes: tuple[int, ...]) -> FloatArray:
    """Finite numbers in one of the shapes, brought to the last of them. The shape () allows a single number."""
    expected = " or ".join("a number" if shape == () else f"shape {shape}" for shape in shapes)
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        array = None
    if array is None or value is None or np.asarray(value).dtype.kind not in "biuf":
        raise InputError(f"{name}={brief(value)}: give {expected} of real numbers.") from None
    require(array.shape in shapes, f"{name} has shape {array.shape}, expected {expected}.")
    require(bool(np.isfinite(array).all()), f"{name} contains NaN or infinity. Give finite numbers.")
    return np.broadcast_to(array, shapes[-1]).copy()


def positive_array(name: str, value: Any, *shapes: tuple[int, ...]) -> FloatArray:
    """The same for numbers above zero."""
    array = real_array(name, value, *shapes)
    smallest = array.min(initial=np.inf)
    require(smallest > 0, f"{name} must be positive, but its smallest value is {smallest:g}. Give numbers above 0.")
    return array


def shares_array(name: str, value: Any, *shapes: tuple[int, ...]) -> FloatArray:
    """The same for rows of numbers from 0 to 1 that sum to 1."""
    array = real_array(name, value, *shapes)
    low, high = array.min(initial=0.0), array.max(initial=0.0)
    require(low >= 0 and high <= 1.0 + ROUNDING, f"{name} must lie between 0 and 1, but has {low:g} and {high:g}.")
    away = np.abs(array.sum(axis=-1) - 1.0).max(initial=0.0)
    require(away <= ROUNDING, f"{name} must sum to 1 over topics, but some differ from it by {away:g}.")
    return array


def covariance_matrix(name: str, value: Any, p: int) -> FloatArray:
    """(p, p) symmetric and positive definite; a single number is that variance for every feature."""
    is_number = np.ndim(value) == 0 and value is not None
    matrix = real_array(name, value, (), (p, p)) * (np.eye(p) if is_number else 1.0)
    scale = np.sqrt(np.abs(np.diag(matrix)))
    symmetric = bool((np.abs(matrix - matrix.T) <= 1e-9 * np.outer(scale, scale)).all())
    try:
        np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        symmetric = False
    require(symmetric, f"{name} must be a symmetric and positive definite matrix, and is not.")
    return 0.5 * (matrix + matrix.T)


def texts(name: str, value: Any) -> tuple[str, ...]:
    """A list of texts that can be written to a file."""
    right = isinstance(value, list | tuple) and all(isinstance(each, str) for each in value)
    require(right, f"{name}={brief(value)}: give a list of texts.")
    try:
        "".join(value).encode("utf-8")
    except UnicodeEncodeError:
        raise InputError(f"{name}={brief(value)}: give texts that can be written as UTF-8.") from None
    return tuple(value)


def nearest(name: str, known: list[str]) -> str:
    """A question that suggests the nearest known name, or nothing.

    >>> nearest("colour", ["color", "texture"])
    "Did you mean 'color'? "
    """
    found = difflib.get_close_matches(name, known, 1)
    return f"Did you mean {found[0]!r}? " if found else ""
