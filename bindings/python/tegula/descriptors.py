"""Tensor descriptors."""

import ctypes
import math
import operator

from .dtypes import DESCRIPTOR
from .memory import elements_of
from .structs import DescriptorStruct
from .errors import Wrong


class TensorDescriptor:
    """An array for a parameter that the kernel uses as a tensor descriptor: base, shape, strides in elements (the last
    one 1), the shape of the blocks that are loaded and stored, and padding ("zero" or "nan"), what lies beyond the
    array. Arguments may be of any class with these attributes, such as triton.tools.tensor_descriptor's."""

    def __init__(self, base, shape, strides, block_shape, padding="zero"):
        self.base, self.shape, self.strides, self.block_shape = base, list(shape), list(strides), list(block_shape)
        self.padding = padding

    @staticmethod
    def from_tensor(tensor, block_shape, padding="zero"):
        """The descriptor of a whole torch tensor or numpy array."""
        _, item, shape, strides, _ = elements_of(tensor)
        if strides is None:
            strides = [math.prod(shape[i + 1:]) * item for i in range(len(shape))]
        return TensorDescriptor(tensor, shape, [s // item for s in strides], block_shape, padding)


class KeptAddress(int):
    """The address of a structure that lives as long as this."""


def descriptor_at(tag, address, place, shape, strides, block_shape, padding):
    rank = len(shape)
    if not rank == len(strides) == len(block_shape):
        raise Wrong(f"a descriptor with {rank} extents, {len(strides)} strides and {len(block_shape)} extents of its "
                     "blocks")
    if padding not in ("zero", "nan"):
        raise Wrong(f"a descriptor with the padding {padding!r}; expected 'zero' or 'nan'")
    lists = [(ctypes.c_int64 * rank)(*map(operator.index, numbers)) for numbers in (shape, strides, block_shape)]
    made = DescriptorStruct(address, rank, padding == "nan", *lists)
    at = KeptAddress(ctypes.addressof(made))
    at.kept = made, lists
    return DESCRIPTOR | tag >> 32 << 32, at, place
