"""Values and the types that a class declares for its fields → nothing, or TypeError.

A file of a run may come from somebody else, so what it says of an object is no better known than what a user types.
"""

import types
from numbers import Integral, Real
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np

# The kinds of numbers that stand for another: NumPy's whole numbers for real ones, say.
ARRAY_KINDS = {np.floating: "biuf", np.integer: "biu", np.bool_: "b"}
NUMBERS: dict[type, type] = {float: Real, int: Integral}


def check_fields(cls: type[Any], fields: dict[str, Any]) -> None:
    """Refuse fields that a class does not declare, and values of other types; fields with a default may be missing."""
    declared = get_type_hints(cls)
    unknown = sorted(set(fields) - set(declared))
    missing = sorted(set(declared) - set(fields) - set(getattr(cls, "_field_defaults", {})))
    if unknown or missing:
        raise TypeError(f"{cls.__name__} has {', '.join(unknown) or 'nothing'} too much and lacks {missing}")
    for name, value in fields.items():
        if not conforms(value, declared[name]):
            raise TypeError(f"{cls.__name__}.{name} is a {type(value).__name__}")


def conforms(value: Any, declared: Any) -> bool:
    """Whether a value is of a declared type: a class, an array of numbers, or lists, tables and choices of them.

    >>> conforms(np.zeros(3), np.ndarray[Any, np.dtype[np.float64]] | None), conforms([1, "2"], list[int])
    (True, False)
    """
    origin, arguments = get_origin(declared), get_args(declared)
    if declared is Any:
        return True
    if declared is None or declared is type(None):
        return value is None
    if origin in (Union, types.UnionType):
        return any(conforms(value, each) for each in arguments)
    if origin is np.ndarray:
        return _is_array_of(value, get_args(arguments[1])[0])
    if origin is dict:
        return isinstance(value, dict) and all(conforms(each, arguments[1]) for each in value.values())
    if origin is list or (origin is tuple and arguments[-1] is Ellipsis):
        return isinstance(value, origin) and all(conforms(each, arguments[0]) for each in value)
    if origin is tuple:
        fits = isinstance(value, tuple) and len(value) == len(arguments)
        return fits and all(map(conforms, value, arguments))
    if declared in NUMBERS:
        return isinstance(value, NUMBERS[declared]) and not isinstance(value, bool | np.bool_)
    if declared is bool:
        return isinstance(value, bool | np.bool_)
    return isinstance(value, origin or declared)


def _is_array_of(value: Any, number: Any) -> bool:
    """Whether a value is an array, or one number, of this type of NumPy."""
    if not isinstance(value, np.ndarray | np.generic):
        return False
    known = (kinds for each, kinds in ARRAY_KINDS.items() if isinstance(number, type) and issubclass(number, each))
    return value.dtype.kind in next(known, value.dtype.kind)
