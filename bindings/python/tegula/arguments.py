"""Arguments of launches as words of the C interface. A handler for each Python type returns (tag, bits, place)."""

import operator
import sys

from . import torch_support
from .descriptors import descriptor_at
from .dtypes import (BOOL, BY_TYPESTR, DESCRIPTOR, DOUBLE, INT, NONE, POINTER, SUPPORTED, UINT, double_bits, dtype_named,
                     dtype_of)
from .errors import IsTuple, Wrong
from .memory import HOST, Reinterpreted, gpu_of, has_address, is_descriptor
from .torch_support import torch_tags

handlers = {}


def unsupported(what, found):
    return Wrong(f"{what} of {found}, which kernels cannot take; supported are {SUPPORTED}")


def int_words(x):
    if -2**63 <= x < 2**63:
        return INT, x, None
    if x < 2**64 and x > 0:
        return UINT, x - 2**64, None
    raise Wrong(f"{x} does not fit 64 bits")


def torch_words(x):
    tag = torch_tags.get(x.dtype)
    if tag is None:
        raise unsupported("a tensor", x.dtype)
    if x.device.type not in ("cuda", "cpu"):
        raise Wrong(f"a tensor on {x.device}; expected one on a CUDA GPU or on the CPU")
    if x.layout is not torch_support.torch.strided:
        raise Wrong(f"a tensor with layout {x.layout}; expected torch.strided")
    return tag, x.data_ptr(), x.get_device()


def numpy_words(x):
    found = dtype_of(x.dtype)
    if found is None:
        raise unsupported("an array", f"dtype {x.dtype.str if x.dtype.byteorder == '>' else x.dtype}")
    return found._pointer, x.__array_interface__["data"][0], HOST


def interface_words(interface, place):
    found = BY_TYPESTR.get(interface["typestr"])
    if found is None:
        raise unsupported("an array", f"type {interface['typestr']!r}")
    if interface.get("mask") is not None:
        raise Wrong("an array with a mask, which kernels do not see; pass the mask as an argument of its own")
    data = interface.get("data")
    if not isinstance(data, tuple):
        raise Wrong("an array whose interface names no address")
    return found._pointer, data[0], place


def descriptor_words(x):
    tag, address, place = words_of(x.base)
    if tag & 0xffffffff != POINTER:
        raise Wrong(f"a descriptor whose base is {x.base!r}; expected an array")
    return descriptor_at(tag, address, place, x.shape, x.strides, x.block_shape, getattr(x, "padding", "zero"))


def reinterpreted_words(x):
    _, address, place = words_of(x.array)
    return x.dtype._pointer, address, place


def address_words(x):
    where = getattr(x, "device", None)
    on_host = getattr(where, "type", where) == "cpu"
    index = getattr(where, "index", None)
    return dtype_of(x.dtype)._pointer, x.data_ptr(), HOST if on_host else index if index is not None else gpu_of(x)


def find_handler(x):
    """The handler of x's type, remembered. Raises Wrong for a type that no argument has."""
    t = type(x)
    numpy = sys.modules.get("numpy")
    if t is bool:
        handler = lambda x: (BOOL, int(x), None)
    elif isinstance(x, float):
        handler = lambda x: (DOUBLE, double_bits(x), None)
    elif x is None:
        handler = lambda x: (NONE, 0, None)
    elif torch_support.meet_tensor(x):
        handler = torch_words
    elif numpy and isinstance(x, numpy.ndarray):
        handler = numpy_words
    elif numpy and isinstance(x, numpy.bool_):
        handler = lambda x: (BOOL, int(x), None)
    elif numpy and isinstance(x, numpy.floating):
        handler = lambda x: (DOUBLE, double_bits(float(x)), None)
    elif numpy and isinstance(x, numpy.integer):
        handler = lambda x: int_words(int(x))
    elif is_descriptor(x):
        handler = descriptor_words
    elif isinstance(x, Reinterpreted):
        handler = reinterpreted_words
    elif hasattr(x, "_words"):
        handler = lambda x: x._words()
    elif hasattr(x, "__cuda_array_interface__"):
        handler = lambda x: interface_words(x.__cuda_array_interface__, gpu_of(x))
    elif hasattr(x, "__array_interface__"):
        handler = lambda x: interface_words(x.__array_interface__, HOST)
    elif hasattr(x, "__index__"):
        handler = lambda x: int_words(operator.index(x))
    elif has_address(x):
        handler = address_words
    elif isinstance(x, tuple):
        raise IsTuple
    elif isinstance(x, str) or dtype_of(x):
        raise Wrong(f"{x!r} is for tl.constexpr parameters, which this one is not")
    else:
        raise Wrong(
            f"{t.__module__}.{t.__qualname__} is no argument of a kernel; expected a tensor, an array, an int, a "
            "float, a bool, None, a TensorDescriptor or a tuple of such")
    handlers[t] = handler
    return handler


def is_memory(tag):
    return tag & 0xffffffff in (POINTER, DESCRIPTOR)


def words_of(x):
    return (handlers.get(type(x)) or find_handler(x))(x)


def reinterpret(array, as_dtype):
    """The memory of an array, taken as elements of another dtype: bfloat16 in numpy's uint16, say."""
    found = dtype_of(as_dtype) or isinstance(as_dtype, str) and dtype_named(as_dtype)
    if not found:
        raise TypeError(f"{as_dtype!r} is no dtype; supported are {SUPPORTED}")
    return Reinterpreted(array, found)
