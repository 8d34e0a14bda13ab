"""The functions of `tl` in numpy: a kernel's text runs as the Python that it is, one program after the other, in double
precision. Each element of a float tile has a bound on how far a right implementation may be from it: 0 as long as all
that it follows from is exact, or rounded in one way alone. What hangs on more than that (a comparison within the
bounds, say) is Undecided."""

import builtins

import numpy as np

from element_types import (BY_NAME, TF32, Undecided, bfloat16, common, common_with_number, float32, int1, int32,
                           integer_in, round_to, uint32)


def is_number(x):
    return isinstance(x, (bool, int, float))


class Tile:
    """Values and bounds of a tile; of a scalar with the shape ()."""

    __array_ufunc__ = None

    def __init__(self, type_, value, bound=None):
        self.type, self.value = type_, np.asarray(value, type_.held)
        if type_.is_float:
            if np.any(np.isnan(self.value)):
                raise Undecided("a NaN")
            self.bound = np.broadcast_to(np.asarray(0.0 if bound is None else bound, np.float64), self.value.shape)
        else:
            self.bound = np.zeros(self.value.shape)

    shape = property(lambda self: self.value.shape)
    dtype = property(lambda self: self.type)
    T = property(lambda self: trans(self))

    @property
    def exact(self):
        return not np.any(self.bound)

    def moved(self, move):
        """The same elements elsewhere."""
        return Tile(self.type, move(self.value), move(self.bound) if self.type.is_float else None)

    def to(self, type_, fp_downcast_rounding=None, bitcast=False):
        return cast(self, type_, fp_downcast_rounding, bitcast)

    def __getitem__(self, index):
        return self.moved(lambda x: x[index])

    def __bool__(self):
        return bool(self.int_value("a condition"))

    def __index__(self):
        return int(self.int_value("an index"))

    def int_value(self, what):
        if self.shape != () or not self.exact:
            raise Undecided(f"{what} of a tile, or within bounds")
        return self.value[()]

    def __neg__(self):
        return self.moved(lambda x: x) * -1 if self.type.is_float else 0 - self

    def __invert__(self):
        return Tile(self.type, ~self.value)

    def __hash__(self):
        return id(self)


def number(x, t):
    """A number of the source as a value of the type."""
    if t.is_float:
        return Tile(t, round_to(np.float64(x), t))
    if t is int1:
        return Tile(t, bool(x))
    if not integer_in(int(x), t):
        raise Undecided("a number that the type lacks")
    return Tile(t, np.asarray(int(x)).astype(t.held))


def convert(x, t):
    if x.type is t:
        return x
    if t is int1:
        if not x.exact:
            raise Undecided("a truth value within bounds")
        return Tile(t, x.value != 0)
    if not t.is_float:
        if x.type.is_float:
            whole = np.trunc(x.value)
            if np.any(np.abs(x.value - np.rint(x.value)) < x.bound) or not x.exact and np.any(
                    np.trunc(x.value + x.bound) != np.trunc(x.value - x.bound)):
                raise Undecided("a float within bounds as an integer")
            low, high = (0, 2.0**t.bits) if t.kind == "u" else (-2.0**(t.bits - 1), 2.0**(t.bits - 1))
            if not np.all((whole >= low) & (whole < high)):
                raise Undecided("a float beyond an integer type")
            return Tile(t, whole.astype(t.held))
        return Tile(t, x.value.astype(t.held))
    if not x.type.is_float and np.any(np.abs(x.value.astype(np.float64)) > 2.0**53):
        raise Undecided("an integer that a double lacks")
    value = x.value.astype(np.float64)
    return rounded(value, x.bound, t)


def as_value(x, t):
    return number(x, t) if is_number(x) else convert(x, t)


def rounded(value, bound, t, inexact=False):
    """Numbers rounded to t once; `inexact`: or not at all, if the compiler contracts."""
    result = round_to(value, t)
    error = np.where(np.isfinite(value) & np.isfinite(result), np.abs(result - value), 0) if inexact else 0.0
    total = bound + error
    if np.any(bound):  # those that a neighbour was rounded to
        total = total + np.where(bound > 0, 2 * unit_of(result, t), 0)
    return Tile(t, result, total)


def unit_of(value, t):
    """Half a unit in the last place."""
    with np.errstate(invalid="ignore"):
        return np.where(np.isfinite(value), np.maximum(np.abs(value), 2.0**t.lowest) * t.epsilon, 0)


def operands(x, y, divides=False):
    """Two operands in the type and the shape in which they meet."""
    if is_number(x) and is_number(y):
        raise AssertionError("Python computes what numbers give")
    if is_number(x) or is_number(y):
        tile, other = (y, x) if is_number(x) else (x, y)
        t = common_with_number(tile.type, other, divides)
    else:
        t = common(x.type, y.type, divides)
    x, y = (as_value(v, t) for v in (x, y))
    shape = np.broadcast_shapes(x.shape, y.shape)
    return broadcast_to(x, shape), broadcast_to(y, shape), t


def add(x, y, sign=1):
    x, y, t = operands(x, y)
    if t.is_float:
        return rounded(x.value + sign * y.value, x.bound + y.bound, t)
    if t is int1:
        raise Undecided("arithmetic on int1")
    return Tile(t, x.value + y.value if sign > 0 else x.value - y.value)


def multiply(x, y):
    x, y, t = operands(x, y)
    if t.is_float:
        bound = np.abs(x.value) * y.bound + np.abs(y.value) * x.bound + x.bound * y.bound
        return rounded(x.value * y.value, bound, t, inexact=True)
    if t is int1:
        raise Undecided("arithmetic on int1")
    return Tile(t, x.value * y.value)


def divide(x, y):
    x, y, t = operands(x, y, divides=True)
    if not t.is_float:
        x, y, t = convert(x, float32), convert(y, float32), float32
    if np.any(np.abs(y.value) <= 2 * y.bound) or not np.all(np.isfinite(x.value) & np.isfinite(y.value)):
        raise Undecided("a division by 0")
    value = x.value / y.value
    bound = (x.bound + np.abs(value) * y.bound) / np.abs(np.abs(y.value) - y.bound)
    return Tile(t, round_to(value, t), bound + np.where(value != 0, 8 * unit_of(value, t), 0))


def truncating(x, y):
    """Quotient and remainder of integers, the former towards 0."""
    x, y, t = operands(x, y, divides=True)
    if t.is_float:
        raise Undecided("a remainder of floats")
    a, b = x.value, y.value
    if np.any(b == 0) or t.kind == "i" and np.any((b == -1) & (a == np.iinfo(t.held).min)):
        raise Undecided("a division by 0, or that overflows")
    quotient = a // b
    if t.kind == "i":
        quotient = quotient + (((a < 0) != (b < 0)) & (quotient * b != a)).astype(t.held)
    return t, quotient, a - quotient * b


def quotient(x, y):
    t, q, _ = truncating(x, y)
    return Tile(t, q)


def remainder(x, y):
    t, _, r = truncating(x, y)
    return Tile(t, r)


def bitwise(function):

    def apply(x, y):
        x, y, t = operands(x, y)
        if t.is_float:
            raise Undecided("bits of floats")
        return Tile(t, function(x.value, y.value))

    return apply


def shift(function):

    def apply(x, y):
        x, y, t = operands(x, y)
        if t.is_float or t is int1 or np.any((y.value < 0) | (y.value.astype(np.int64) >= t.bits)):
            raise Undecided("a shift by more than the type has")
        return Tile(t, function(x.value, y.value))

    return apply


def compare(function):

    def apply(x, y):
        if (is_number(x) or is_number(y)) and not integer_or_float_fits(x, y):
            raise Undecided("a comparison with a number that the type lacks")
        x, y, t = operands(x, y)
        with np.errstate(invalid="ignore"):
            if np.any((np.abs(x.value.astype(np.float64) - y.value) <= x.bound + y.bound) & (x.bound + y.bound > 0)):
                raise Undecided("a comparison within bounds")
        return Tile(int1, function(x.value, y.value))

    return apply


def integer_or_float_fits(x, y):
    tile, literal = (y, x) if is_number(x) else (x, y)
    return tile.type.is_float or isinstance(literal, float) or integer_in(literal, tile.type)


OPERATORS = {
    "add": add, "sub": lambda x, y: add(x, y, -1), "mul": multiply, "truediv": divide, "floordiv": quotient,
    "mod": remainder, "and": bitwise(np.bitwise_and), "or": bitwise(np.bitwise_or), "xor": bitwise(np.bitwise_xor),
    "lshift": shift(np.left_shift), "rshift": shift(np.right_shift)
}
for _name, _function in OPERATORS.items():
    setattr(Tile, f"__{_name}__", lambda x, y, f=_function: NotImplemented if isinstance(y, Pointer) else f(x, y))
    setattr(Tile, f"__r{_name}__", lambda x, y, f=_function: f(y, x))
for _name, _function in (("lt", np.less), ("le", np.less_equal), ("gt", np.greater), ("ge", np.greater_equal),
                         ("eq", np.equal), ("ne", np.not_equal)):
    setattr(Tile, f"__{_name}__", lambda x, y, f=compare(_function): f(x, y))

# ---- Memory


class Memory:
    """An array of the host's, as values with their bounds. What lies outside of [0, length) is not the kernel's."""

    def __init__(self, type_, values):
        self.type, self.value = type_, np.array(values, type_.held)
        self.bound = np.zeros(self.value.shape)


class Pointer:
    """Pointers to elements of an array, by their numbers."""

    __array_ufunc__ = None

    def __init__(self, memory, at):
        self.memory, self.at = memory, np.asarray(at, np.int64)

    shape = property(lambda self: self.at.shape)

    def __add__(self, offset, sign=1):
        by = offset if is_number(offset) else offset.value.astype(np.int64)
        return Pointer(self.memory, self.at + sign * by)

    __radd__ = __add__

    def __sub__(self, offset):
        return self.__add__(offset, -1)

    def __getitem__(self, index):
        return Pointer(self.memory, self.at[index])

    def under(self, mask):
        """Numbers of the elements, and which are accessed."""
        keep = True if mask is None else mask if is_number(mask) else convert(mask, int1).value
        shape = np.broadcast_shapes(self.at.shape, np.shape(keep))
        at, keep = np.broadcast_to(self.at, shape), np.broadcast_to(np.asarray(keep, bool), shape)
        if np.any(keep & ((at < 0) | (at >= self.memory.value.size))):
            raise Undecided("an access out of bounds")
        return at, keep


def load(pointer, mask=None, other=None, boundary_check=(), cache_modifier="", eviction_policy="", volatile=False):
    if isinstance(pointer, Block):
        pointer, mask = Pointer(pointer.memory, pointer.at), pointer.inside(boundary_check)
    memory = pointer.memory
    at, keep = pointer.under(mask)
    fill = number(0, memory.type) if other is None else other
    fill = broadcast_to(as_value(fill, memory.type), at.shape)
    safe = np.where(keep, at, 0)
    return Tile(memory.type, np.where(keep, memory.value[safe], fill.value),
                np.where(keep, memory.bound[safe], fill.bound))


class Block:
    """A block of an array with shape and strides: a block pointer's, or a descriptor's at its offsets."""

    def __init__(self, base, shape, strides, offsets, block):
        self.memory, self.block = base.memory, tuple(block)
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


class Descriptor:

    def __init__(self, *parts):
        self.parts = parts

    def block_at(self, offsets):
        base, shape, strides, block = self.parts
        return Block(base, shape, strides, offsets, block)

    def load(self, offsets):
        return load(self.block_at(offsets), boundary_check=builtins.range(len(offsets)))

    def store(self, offsets, value):
        store(self.block_at(offsets), value, boundary_check=builtins.range(len(offsets)))


def make_tensor_descriptor(base, shape, strides, block_shape):
    return Descriptor(base, shape, strides, block_shape)


def store(pointer, value, mask=None, boundary_check=(), cache_modifier="", eviction_policy=""):
    if isinstance(pointer, Block):
        pointer, mask = Pointer(pointer.memory, pointer.at), pointer.inside(boundary_check)
    memory = pointer.memory
    at, keep = pointer.under(mask)
    value = broadcast_to(as_value(value, memory.type), at.shape)
    places, values, bounds = at[keep], value.value[keep], value.bound[keep]
    order = np.argsort(places, kind="stable")
    same = np.diff(places[order]) == 0
    ordered = values[order]
    if np.any(same & ((ordered[1:] != ordered[:-1]) | (bounds[order][1:] > 0))):
        raise Undecided("stores of different values to one element")
    memory.value[places], memory.bound[places] = values, bounds


def atomic(function):
    """Of integers, and of floats whose sums are exact: the order is not known. Gives nothing."""

    def apply(pointer, value, mask=None, sem=None, scope=None):
        memory = pointer.memory
        at, keep = pointer.under(mask)
        value = broadcast_to(as_value(value, memory.type), at.shape)
        if not value.exact:
            raise Undecided("an atomic operation on a number within bounds")
        function.at(memory.value, at[keep], value.value[keep])
        if memory.type.is_float and np.any(round_to(memory.value, memory.type) != memory.value):
            raise Undecided("an atomic sum that is rounded")

    return apply


atomic_add, atomic_max, atomic_min = atomic(np.add), atomic(np.maximum), atomic(np.minimum)
atomic_and, atomic_or, atomic_xor = atomic(np.bitwise_and), atomic(np.bitwise_or), atomic(np.bitwise_xor)


def debug_barrier():
    pass


# ---- Making and moving


def arange(begin, end):
    return Tile(int32, np.arange(begin, end))


def full(shape, value, dtype):
    return broadcast_to(as_value(value, dtype), tuple(shape))


def zeros(shape, dtype):
    return full(shape, 0, dtype)


def cast(x, dtype, fp_downcast_rounding=None, bitcast=False):
    if not bitcast:
        return convert(x, dtype)
    if x.type.is_float or dtype.is_float or x.type.bits != dtype.bits:
        raise Undecided("the bits of a float")
    return Tile(dtype, np.ascontiguousarray(x.value).view(dtype.held).reshape(x.shape))


def as_shape(shape):
    return tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape


def broadcast_to(x, *shape):
    return x.moved(lambda v: np.broadcast_to(v, as_shape(shape)))


def reshape(x, *shape):
    return x.moved(lambda v: np.reshape(v, as_shape(shape)))


def expand_dims(x, axis):
    return x.moved(lambda v: np.expand_dims(v, axis))


def trans(x, *dims):
    dims = as_shape(dims) or (*range(len(x.shape) - 2), len(x.shape) - 1, len(x.shape) - 2)
    return x.moved(lambda v: np.transpose(v, dims))


permute = trans


def flip(x, dim=None):
    return x.moved(lambda v: np.flip(v, -1 if dim is None else dim))


def pair(x, y, place):
    x, y, t = operands(x, y)
    return Tile(t, place(x.value, y.value), place(x.bound, y.bound))


def join(x, y):
    return pair(x, y, lambda a, b: np.stack([a, b], -1))


def interleave(x, y):
    return pair(x, y, lambda a, b: np.stack([a, b], -1).reshape(*a.shape[:-1], 2 * a.shape[-1]))


def cat(x, y, can_reorder=False):
    return pair(x, y, lambda a, b: np.concatenate([a, b]))


def split(x):
    return x[..., 0], x[..., 1]


def gather(x, index, axis):
    if np.any((index.value < 0) | (index.value >= x.shape[axis])):
        raise Undecided("an index out of bounds")
    return x.moved(lambda v: np.take_along_axis(v, index.value.astype(np.int64), axis))


# ---- Elementwise


def where(condition, x, y):
    if not is_number(condition):
        condition = convert(condition, int1)
    x, y, t = operands(x, y) if not (is_number(x) and is_number(y)) else (*(number(v, int32) for v in (x, y)), int32)
    chosen = condition if is_number(condition) else condition.value
    return Tile(t, np.where(chosen, x.value, y.value), np.where(chosen, x.bound, y.bound))


def widened(x):
    return x if is_number(x) or x.type is not bfloat16 else convert(x, float32)


def extreme(function):

    def apply(x, y):
        x, y, t = operands(widened(x), widened(y))
        return Tile(t, function(x.value, y.value), np.maximum(x.bound, y.bound))

    return apply


maximum, minimum = extreme(np.maximum), extreme(np.minimum)


def clamp(x, low, high):
    return minimum(maximum(x, low), high)


def abs(x):  # noqa: A001: as the language has it
    return Tile(x.type, np.abs(x.value), x.bound)


def fma(x, y, z):
    x, y, z = (convert(v, float32) for v in (x, y, z))
    if not (x.exact and y.exact and z.exact):
        raise Undecided("fma of numbers within bounds")
    product = x.value * y.value  # exact in a double
    total = product + z.value
    return Tile(float32, round_to(total, float32), np.where(total == round_to(total, float32), 0, unit_of(total, float32)))


def approximate(function, slope, ulps):
    """A function of float32: `slope` bounds its derivative near x."""

    def apply(x):
        if x.type is not float32:
            raise Undecided("a function of another type than float32")
        with np.errstate(all="ignore"):
            value = function(x.value)
            spread = slope(x.value) * x.bound * 1.01
        if np.any(np.isnan(value) | np.isinf(value) | np.isnan(spread)) or np.any(x.bound > 0.01 + np.abs(x.value) / 100):
            raise Undecided("a function beyond what it is tested for")
        return Tile(float32, round_to(value, float32), spread + 2 * ulps(x.value) * unit_of(value, float32) + 2e-38)

    return apply


exp = approximate(np.exp, np.exp, lambda x: 6 + 2 * np.abs(x))
exp2 = approximate(np.exp2, np.exp2, lambda x: 6 + 0 * x)
log = approximate(np.log, lambda x: 1 / x, lambda x: 4 + 4 / np.maximum(np.abs(np.log(x)), 1e-9) * 1e-7)
sqrt = approximate(np.sqrt, lambda x: 0.6 / np.sqrt(x), lambda x: 4 + 0 * x)
sin = approximate(np.sin, lambda x: 1 + 0 * x, lambda x: 8 + 0 * x)


def floor(x):
    if not x.exact:
        raise Undecided("the floor of a number within bounds")
    return Tile(x.type, np.floor(x.value))


def sigmoid(x):
    return approximate(lambda v: 1 / (1 + np.exp(-v)), lambda v: 0.26 + 0 * v, lambda v: 12 + 2 * np.abs(v))(x)


# ---- Along an axis


def sum_type(t):
    if t.kind in "bu" and t.bits < 32:
        return uint32
    if t.kind == "i" and t.bits < 32:
        return int32
    return float32 if t is bfloat16 else t


def lowest_bit(x):
    """The largest power of two that all are multiples of."""
    x = np.abs(x[x != 0])
    if x.size == 0:
        return 1.0
    fraction, exponent = np.frexp(x)
    whole = np.ldexp(fraction, 53).astype(np.int64)
    return float(np.min(np.ldexp((whole & -whole).astype(np.float64), exponent - 53)))


def sum_bound(terms, bounds, axis, digits, cumulative=False):
    """How far sums along an axis may be off in any order: not at all where all partial sums are numbers of the type."""
    total = np.cumsum if cumulative else np.sum
    if not np.all(np.isfinite(terms)):
        raise Undecided("a sum of infinities")
    sizes = total(np.abs(terms), axis=axis)
    if not np.any(bounds) and (sizes.size == 0 or np.max(sizes) <= lowest_bit(terms) * 2.0**digits):
        return np.zeros_like(sizes)
    return total(bounds, axis=axis) * 1.01 + terms.shape[axis] * 2.0**-digits * (sizes + total(bounds, axis=axis))


def reduced(x, axis, keep_dims, function):
    """function(values, bounds, axis) of the tile, along all of it where there is no axis."""
    if axis is None:
        x, axis, shape = reshape(x, -1), 0, (1, ) * len(x.shape) if keep_dims else ()
    else:
        axis %= len(x.shape)
        shape = tuple(1 if i == axis else n for i, n in enumerate(x.shape) if keep_dims or i != axis)
    t, value, bound = function(x, axis)
    return Tile(t, np.reshape(value, shape), None if bound is None else np.reshape(bound, shape))


def sum(x, axis=None, keep_dims=False, dtype=None):  # noqa: A001
    x = convert(x, dtype or sum_type(x.type))

    def add_all(x, axis):
        if not x.type.is_float:
            return x.type, np.add.reduce(x.value, axis=axis, dtype=x.type.held), None
        value = np.sum(x.value, axis=axis)
        return x.type, round_to(value, x.type), sum_bound(x.value, x.bound, axis, x.type.digits)

    return reduced(x, axis, keep_dims, add_all)


def extreme_type(t):
    return t if t.bits >= 32 else float32 if t.is_float else int32 if t.kind == "i" else uint32


def extreme_along(pick):

    def apply(x, axis=None, keep_dims=False):
        x = convert(x, extreme_type(x.type))
        return reduced(
            x, axis, keep_dims, lambda x, axis:
            (x.type, pick(x.value, axis=axis), np.max(x.bound, axis=axis)))

    return apply


max, min = extreme_along(np.max), extreme_along(np.min)  # noqa: A001


def index_of(pick):

    def apply(x, axis, tie_break_left=True, keep_dims=False):
        if not x.exact:
            raise Undecided("the place of an extreme within bounds")
        return reduced(x, axis, keep_dims, lambda x, axis: (int32, pick(x.value, axis=axis), None))

    return apply


argmax, argmin = index_of(np.argmax), index_of(np.argmin)


def xor_sum(x, axis=None, keep_dims=False):
    return reduced(x, axis, keep_dims, lambda x, axis: (x.type, np.bitwise_xor.reduce(x.value, axis=axis), None))


def cumsum(x, axis=0, reverse=False, dtype=None):
    x = convert(x, dtype or sum_type(x.type))
    turned = flip(x, axis) if reverse else x
    if x.type.is_float:
        bound = sum_bound(turned.value, turned.bound, axis, x.type.digits, cumulative=True)
        sums = Tile(x.type, round_to(np.cumsum(turned.value, axis=axis), x.type), bound)
    else:
        sums = Tile(x.type, np.cumsum(turned.value, axis=axis, dtype=x.type.held))
    return flip(sums, axis) if reverse else sums


def associative_scan(x, axis, combine_fn, reverse=False):
    turned = flip(x, axis) if reverse else x
    lines = [turned.moved(lambda v, i=i: np.take(v, i, axis)) for i in range(x.shape[axis])]
    for i in builtins.range(1, len(lines)):
        lines[i] = combine_fn(lines[i - 1], lines[i])
    if not all(line.exact for line in lines):
        raise Undecided("a scan of numbers within bounds")
    result = Tile(x.type, np.stack([line.value for line in lines], axis))
    return flip(result, axis) if reverse else result


def reduce(x, axis, combine_fn, keep_dims=False):
    last = associative_scan(x, axis, combine_fn).moved(lambda v: np.take(v, [-1], axis))
    return last if keep_dims else last.moved(lambda v: np.squeeze(v, axis))


def sort(x, dim=None, descending=False):
    if not x.exact:
        raise Undecided("the order of numbers within bounds")
    value = np.sort(x.value, -1)
    return Tile(x.type, value[..., ::-1] if descending else value)


def histogram(x, num_bins, mask=None):
    keep = (x.value >= 0) & (x.value < num_bins)
    if mask is not None:
        keep = keep & convert(mask, int1).value
    return Tile(int32, np.bincount(x.value[keep].astype(np.int64), minlength=num_bins))


# ---- Products


def dot(x, y, acc=None, input_precision=None, out_dtype=None, max_num_imprecise_acc=None):
    if not x.type.is_float:
        product = Tile(int32, np.matmul(x.value.astype(np.int32), y.value.astype(np.int32)))
        return product if acc is None else acc + product
    value = np.matmul(x.value, y.value)
    bound = np.matmul(np.abs(x.value) + x.bound, y.bound) + np.matmul(x.bound, np.abs(y.value))
    sizes = np.matmul(np.abs(x.value), np.abs(y.value))
    if acc is not None:
        value, bound, sizes = value + acc.value, bound + acc.bound, sizes + np.abs(acc.value)
    if x.type in (float32, ) and input_precision != "ieee" and any(np.any(round_to(v.value, TF32) != v.value) for v in (x, y)):
        bound = bound + sizes * 2.0**-9
    digits = 13 if x.type.is_float8 else 22
    small = lowest_bit(x.value) * lowest_bit(y.value)
    if acc is not None:
        small = np.minimum(small, lowest_bit(acc.value))
    exact = np.max(sizes, initial=0) <= small * 2.0**digits and not np.any(bound)
    slack = 0 if exact else sizes * (x.shape[-1] + 1) * 2.0**-digits
    return Tile(float32, round_to(value, float32), bound * 1.01 + slack)


# ---- Programs


def cdiv(x, y):
    return (x + y - 1) // y


def for_range(*bounds, **options):
    """range and tl.range: the numbers of a loop as values of the kernel."""
    for i in builtins.range(*(int(b) if not isinstance(b, Tile) else b.__index__() for b in bounds)):
        yield Tile(int32, i)


class Language:
    """What `tl` is to a program of a launch."""

    constexpr = int

    def __init__(self, program, grid):
        self.program, self.grid = program, grid

    def program_id(self, axis):
        return Tile(int32, self.program[axis])

    def num_programs(self, axis):
        return Tile(int32, self.grid[axis])

    def __getattr__(self, name):
        if name in BY_NAME:
            return BY_NAME[name]
        if name in ("range", "static_range"):
            return for_range
        return globals()[name]


class Triton:
    """The decorator of kernels."""

    @staticmethod
    def jit(function):
        return function


def run(text, grid, arguments):
    """Runs `kernel` of the text for all programs; memory and numbers by the names of the parameters."""
    names = {"triton": Triton, "range": for_range}
    code = compile(text, "kernel", "exec")
    for z in builtins.range(grid[2]):
        for y in builtins.range(grid[1]):
            for x in builtins.range(grid[0]):
                space = {**names, "tl": Language((x, y, z), grid)}
                exec(code, space)
                space["kernel"](**{
                    name: Pointer(a, 0) if isinstance(a, Memory) else Tile(a[0], a[1])
                    for name, a in arguments.items()
                })
