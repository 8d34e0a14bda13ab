"""Arrays of the reference, pointers into them, and what reads and writes them."""

import builtins

import numpy as np

import iterations
from element_types import Undecided, int1, round_to
from values import Tile, as_value, broadcast_to, convert, is_number, number, some


class Memory:
    """An array of the host's, as values with their bounds. What lies outside of [0, length) is not the kernel's."""

    def __init__(self, type_, values):
        self.type, self.value, self.slack = type_, np.array(values, type_.held), None
        self.written = False
        self.stores = iterations.Stores(self.value.size)
        self.combined = []  # (function, places, whether what was there was given) of atomic operations

    bound = property(lambda self: np.zeros(self.value.shape) if self.slack is None else self.slack)

    def put(self, places, values, bounds):
        """Bounds are None for exact values."""
        self.written = True
        self.value[places] = values
        if self.slack is None and bounds is not None:
            self.slack = np.zeros(self.value.shape)
        if self.slack is not None:
            self.slack[places] = 0 if bounds is None else bounds


def by(offset):
    return offset if is_number(offset) else offset.value.astype(np.int64)


class Pointer:
    """Pointers to elements of an array, by their numbers."""

    __array_ufunc__ = None

    def __init__(self, memory, at):
        self.memory, self.at = memory, np.asarray(at, np.int64)

    shape = property(lambda self: self.at.shape)

    def __add__(self, offset):
        return Pointer(self.memory, np.add(self.at, by(offset), dtype=np.int64))

    __radd__ = __add__

    def __sub__(self, offset):
        return Pointer(self.memory, np.subtract(self.at, by(offset), dtype=np.int64))

    def __getitem__(self, index):
        return Pointer(self.memory, self.at[index])

    def under(self, mask):
        """Numbers of the elements, and which are accessed: None if all are."""
        at, keep, length = self.at, None, self.memory.value.size
        if mask is not None:
            keep = np.asarray(mask, bool) if is_number(mask) else convert(mask, int1).value
            if keep.shape != at.shape:
                at, keep = np.broadcast_arrays(at, keep)
        if keep is None or keep.all():
            if at.size and (at.min() < 0 or at.max() >= length):
                raise Undecided("an access out of bounds")
            return at, None
        if some(keep & ((at < 0) | (at >= length))):
            raise Undecided("an access out of bounds")
        return at, keep


def load(pointer, mask=None, other=None, boundary_check=(), cache_modifier="", eviction_policy="", volatile=False):
    if isinstance(pointer, Block):
        pointer, mask = Pointer(pointer.memory, pointer.at), pointer.inside(boundary_check)
    memory = pointer.memory
    at, keep = pointer.under(mask)
    fill = number(0, memory.type) if other is None else as_value(other, memory.type)
    if fill.shape != at.shape and fill.shape != ():
        fill = broadcast_to(fill, at.shape)
    if keep is None:
        return Tile(memory.type, memory.value[at], None if memory.slack is None else memory.slack[at])
    safe = np.where(keep, at, 0)
    exact = fill.exact and memory.slack is None
    return Tile(memory.type, np.where(keep, memory.value[safe], fill.value),
                None if exact else np.where(keep, memory.bound[safe], fill.bound))


class Block:
    """A block of an array with shape and strides: a block pointer's, or a descriptor's at its offsets."""

    def __init__(self, base, shape, strides, offsets, block):
        self.memory, self.block = base.memory, tuple(block)
        self.parts = base, shape, strides, offsets
        grids = np.ix_(*(int(o) + np.arange(n) for o, n in zip(offsets, block)))
        self.at = builtins.sum(g * int(s) for g, s in zip(grids, strides)) + base.at
        self.within = [(g >= 0) & (g < int(n)) for g, n in zip(grids, shape)]

    def inside(self, axes):
        keep = np.ones(self.block, bool)
        for axis in axes:
            keep = keep & self.within[axis]
        return Tile(int1, keep)


def make_block_ptr(base, shape, strides, offsets, block_shape, order):
    return Block(base, shape, strides, offsets, block_shape)


def advance(block, offsets):
    base, shape, strides, begin = block.parts
    return Block(base, shape, strides, [int(b) + int(o) for b, o in zip(begin, offsets)], block.block)


class Descriptor:

    def __init__(self, *parts):
        self.parts = parts

    def block_at(self, offsets):
        base, shape, strides, block = self.parts
        return Block(base, shape, strides, offsets, block)

    def load(self, offsets):
        return load(self.block_at(offsets), boundary_check=builtins.range(len(offsets)))

    def store(self, offsets, value):
        store(self.block_at(offsets), value, boundary_check=builtins.range(len(offsets)), frames=2)


def make_tensor_descriptor(base, shape, strides, block_shape):
    return Descriptor(base, shape, strides, block_shape)


def store(pointer, value, mask=None, boundary_check=(), cache_modifier="", eviction_policy="", frames=1):
    if isinstance(pointer, Block):
        pointer, mask = Pointer(pointer.memory, pointer.at), pointer.inside(boundary_check)
    memory = pointer.memory
    at, keep = pointer.under(mask)
    value = broadcast_to(as_value(value, memory.type), at.shape)
    places, values, bounds = (x if keep is None or x is None else x[keep] for x in (at, value.value, value.slack))
    memory.stores.note(places, memory.value[places] != values, at, frames)
    memory.put(places, values, bounds)
    # Of elements that are stored to twice, one value is left. Who of those within bounds wins is not known either.
    if some(memory.value[places] != values) or bounds is not None and twice(places[bounds > 0], places):
        raise Undecided("stores of different values to one element")


def twice(few, all_):
    """Whether one of a few numbers stands among all of them more than once."""
    numbers, counts = np.unique(all_, return_counts=True)
    return bool(np.isin(few, numbers[counts > 1]).any())


def comes_behind_its_like(memory, function, at, gives):
    """Whether an atomic operation of the same kind, which leaves the same in any order, has got to some of the elements by
    other pointers: then it is not known which of the two was first."""
    behind = False
    for kind, places, gave in memory.combined if function is not Exchange else ():
        if kind is function and not np.array_equal(places, at) and np.isin(at, places).any():
            if gave:
                raise Undecided("what atomic operations of one kind left to each other")
            behind = True
    memory.combined.append((function, at, gives and not behind))
    return behind


class Unknown:
    """What an atomic operation gives where its order with others is not known: to use it leaves the kernel undecided."""

    __array_ufunc__ = None

    def __getattr__(self, name):
        raise Undecided("what atomic operations of one kind left to each other")


for operator in "add sub mul truediv floordiv mod and or xor lshift rshift lt le gt ge eq ne neg invert getitem".split():
    for reflected in "", "r":
        setattr(Unknown, f"__{reflected}{operator}__", lambda self, *_: self.used)


def atomic(function):
    """Of integers, and of floats whose sums are exact: the order is not known. Gives what was there where no element is
    accessed twice."""

    def apply(pointer, value, mask=None, sem=None, scope=None):
        memory = pointer.memory
        at, keep = pointer.under(mask)
        old = Unknown()
        gives = memory.slack is None and np.unique(at).size == at.size
        if not comes_behind_its_like(memory, function, at if keep is None else at[keep], gives) and gives:
            old = Tile(memory.type, memory.value[at if keep is None else np.where(keep, at, 0)])
        value = broadcast_to(as_value(value, memory.type), at.shape)
        if not value.exact:
            raise Undecided("an atomic operation on a number within bounds")
        places, values = (at, value.value) if keep is None else (at[keep], value.value[keep])
        function.at(memory.value, places, values)
        memory.written = True
        if memory.type.is_float and np.any(round_to(memory.value, memory.type) != memory.value):
            raise Undecided("an atomic sum that is rounded")
        return old

    return apply


atomic_add, atomic_max, atomic_min = atomic(np.add), atomic(np.maximum), atomic(np.minimum)
atomic_and, atomic_or, atomic_xor = atomic(np.bitwise_and), atomic(np.bitwise_or), atomic(np.bitwise_xor)


class Exchange:
    """As numpy's functions have it."""

    @staticmethod
    def at(array, places, values):
        array[places] = values


atomic_xchg = atomic(Exchange)


def atomic_cas(pointer, cmp, val, sem=None, scope=None):
    memory = pointer.memory
    at, _ = pointer.under(None)
    old = memory.value[at]
    equal = old == broadcast_to(as_value(cmp, memory.type), at.shape).value
    atomic_xchg(pointer, val, Tile(int1, equal))
    return Tile(memory.type, old) if np.unique(at).size == at.size else None


def debug_barrier():
    pass
