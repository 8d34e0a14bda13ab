"""What is known of the memory of an array: where it begins, how far it reaches, whether it may be written."""

import itertools
import math

from .dtypes import dtype_of
from .torch_support import is_tensor

HOST = -1  # the place of data in the memory of the host; others are ordinals of GPUs and devices


def is_descriptor(x):
    return all(hasattr(x, name) for name in ("base", "shape", "strides", "block_shape"))


class Reinterpreted:
    """An array (`array`), taken as elements of another dtype (`dtype`)."""

    def __init__(self, array, as_dtype):
        self.array, self.dtype = array, as_dtype


def array_of(x):
    """The array of a descriptor, or one that is reinterpreted; else x itself."""
    x = x.base if is_descriptor(x) else x
    return array_of(x.array) if isinstance(x, Reinterpreted) else x


def gpu_of(x):
    """The ordinal of the GPU that holds an array of another library; the interface does not tell."""
    where = getattr(x, "device", None)
    where = getattr(where, "id", where)
    return where if isinstance(where, int) else 0


def has_address(x):
    """Whether x is what Triton takes for an array: an object with a dtype and the method data_ptr."""
    return callable(getattr(x, "data_ptr", None)) and dtype_of(getattr(x, "dtype", None)) is not None


def elements_of(x):
    """An array as bytes of all elements, bytes of one, shape, strides in bytes (None: row-major), address."""
    x = array_of(x)
    if hasattr(x, "_elements"):
        return x._elements()
    if is_tensor(x):
        item = x.element_size()
        return x.numel() * item, item, x.shape, [s * item for s in x.stride()], x.data_ptr()
    if has_address(x):
        if not hasattr(x, "shape") or not callable(getattr(x, "stride", None)):
            raise TypeError(f"{type(x).__qualname__} has neither shape nor stride(), which tell what of its memory a "
                            "kernel may reach; pass the array itself")
        item = dtype_of(x.dtype).itemsize
        return math.prod(x.shape) * item, item, x.shape, [s * item for s in x.stride()], x.data_ptr()
    interface = getattr(x, "__cuda_array_interface__", None) or x.__array_interface__
    item = int(interface["typestr"][2:])
    return math.prod(
        interface["shape"]) * item, item, interface["shape"], interface.get("strides"), interface["data"][0]


def extent_of(x):
    """(first address, bytes) of the memory that an array's elements span; (0, 0) if it has none."""
    size, item, shape, strides, address = elements_of(x)
    if strides is None or size == 0:
        return address if size else 0, size
    low = sum((n - 1) * s for n, s in zip(shape, strides) if s < 0)
    high = sum((n - 1) * s for n, s in zip(shape, strides) if s > 0)
    return address + low, high - low + item


def reach_of(x):
    """(first address, bytes) of the memory that a kernel may access, given an array: of all that a tensor is a view of, as
    on a GPU; else what its elements span."""
    x = array_of(x)
    if is_tensor(x) and x.numel():
        storage = x.untyped_storage()
        return storage.data_ptr(), storage.nbytes()
    return extent_of(x)


MOST_RUNS = 4096


def runs_of(x):
    """[(first address, bytes)] of the memory that an array's elements take, neighbours together: without the gaps between the
    rows of a view. What they span where that would be many; of a tensor all that it is a view of."""
    whole = [run for run in (reach_of(x), ) if run[1]]
    x = array_of(x)
    size, item, shape, strides, address = elements_of(x)
    if strides is None or size == 0 or is_tensor(x):
        return whole
    axes = sorted((abs(s), n) for n, s in zip(shape, strides) if n > 1 and s)
    run = item
    while axes and axes[0][0] <= run:
        stride, n = axes.pop(0)
        run += (n - 1) * stride
    if math.prod(n for _, n in axes) > MOST_RUNS:
        return whole
    first = address + sum((n - 1) * s for n, s in zip(shape, strides) if s < 0)
    begins = [first + sum(at) for at in itertools.product(*(range(0, n * s, s) for s, n in axes))]
    return [(begin, run) for begin in begins]


def is_read_only(x):
    """Whether an array says of its memory on the host that it must not be written to."""
    x = array_of(x)
    if is_tensor(x):
        return False
    interface = getattr(x, "__array_interface__", None)
    return bool(interface and isinstance(interface.get("data"), tuple) and interface["data"][1])
