"""Compile-time values as the words of the C interface: tag (kind, and dtype above it), bits, bytes."""

import ctypes
import operator
import reprlib
import sys

from .dtypes import BOOL, DOUBLE, INT, NEXT, NONE, STRING, TUPLE, double_bits, dtype_of
from .errors import Wrong
from .structs import TupleStruct
from .type_texts import is_type


class NextArgument:
    """In a tuple that stands for an argument of a launch: the next of the arguments."""


next_argument = NextArgument()


def is_triton_constexpr(x):
    """Whether x is Triton's tl.constexpr(value)."""
    return type(x).__name__ == "constexpr" and hasattr(x, "value")


def form_of(x, leaves, types):
    """A tuple with what is known at compile time; the other items are added to `leaves`. `types`: so are types' names."""
    items = []
    for item in x:
        if is_triton_constexpr(item):
            items.append(item.value)
        elif isinstance(item, tuple):
            items.append(form_of(item, leaves, types))
        elif item is None or isinstance(item, str) and not (types and is_type(item)) or dtype_of(item):
            items.append(item)
        else:
            leaves.append(item)
            items.append(next_argument)
    return x._make(items) if hasattr(x, "_make") else tuple(items)


def kind_of(x):
    """The type of a compile-time argument, and of a tuple's items: 1 and True are equal."""
    return (type(x), *map(kind_of, x)) if isinstance(x, tuple) else type(x)


def tuple_words(value, keep):
    words = []
    for item in value:
        words += (*constexpr_words(item, keep), 0)
    fields = getattr(value, "_fields", ())
    items = (ctypes.c_int64 * len(words))(*words)
    made = TupleStruct(ctypes.addressof(items), len(value),
                        type(value).__name__.encode() if fields else None,
                        ",".join(fields).encode() if fields else None)
    keep += (items, made)
    return TUPLE, ctypes.addressof(made)


def constexpr_words(value, keep):
    """(tag, bits) of a compile-time argument. What they point to is added to `keep`."""
    if is_triton_constexpr(value):
        value = value.value
    if value is None:
        return NONE, 0
    if value is next_argument:
        return NEXT, 0
    if isinstance(value, tuple):
        return tuple_words(value, keep)
    if isinstance(value, bool) or type(value).__name__ in ("bool_", "bool"):  # numpy's
        return BOOL, int(value)
    if isinstance(value, str):
        text = ctypes.create_string_buffer(value.encode())
        keep.append(text)
        return STRING, ctypes.addressof(text)
    numpy = sys.modules.get("numpy")
    if isinstance(value, float) or numpy and isinstance(value, numpy.floating):
        return DOUBLE, double_bits(float(value))
    if found := dtype_of(value):
        return found._tag, 0
    try:
        number = operator.index(value)
    except TypeError:
        raise Wrong(
            f"{reprlib.repr(value)} ({type(value).__name__}) cannot be a compile-time value; expected None, a bool, an int, a "
            "float, a str, a dtype or a tuple of such") from None
    if not -2**63 <= number < 2**63:
        raise Wrong(f"{number} does not fit 64 bits")
    return INT, number
