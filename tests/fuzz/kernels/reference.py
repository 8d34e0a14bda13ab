"""The functions of `tl` in numpy: a kernel's text runs as the Python that it is, one program after the other, on tiles with
bounds (values.py)."""

import builtins
import functools

import numpy as np

import iterations
from accesses import (Memory, Pointer, advance, atomic_add, atomic_and, atomic_cas, atomic_max, atomic_min, atomic_or,  # noqa: F401
                      atomic_xchg, atomic_xor, debug_barrier, load, make_block_ptr, make_tensor_descriptor, store)
from assembly import inline_asm_elementwise  # noqa: F401
from element_types import BY_NAME, TF32, Undecided, bfloat16, common, float32, float8_values, int1, int32, round_to, uint32
from values import (Tile, add, as_shape, as_value, broadcast_to, cast, convert, is_number, number, operands, rounded, trans,  # noqa: F401
                    unit_of)

# ---- Making and moving


def arange(begin, end):
    return Tile(int32, np.arange(begin, end))


def full(shape, value, dtype):
    return broadcast_to(as_value(value, dtype), tuple(shape))


def zeros(shape, dtype):
    return full(shape, 0, dtype)


def reshape(x, *shape):
    return x.moved(lambda v: np.reshape(v, as_shape(shape)))


def expand_dims(x, axis):
    return x.moved(lambda v: np.expand_dims(v, axis))


permute = trans


def flip(x, dim=None):
    return x.moved(lambda v: np.flip(v, -1 if dim is None else dim))


def pair(x, y, place):
    x, y, t = operands(x, y)
    shape = np.broadcast_shapes(x.shape, y.shape)
    x, y = broadcast_to(x, shape), broadcast_to(y, shape)
    return Tile(t, place(x.value, y.value), None if x.exact and y.exact else place(x.bound, y.bound))


def join(x, y):
    return pair(x, y, lambda a, b: np.stack([a, b], -1))


def interleave(x, y):
    return pair(x, y, lambda a, b: np.stack([a, b], -1).reshape(*a.shape[:-1], 2 * a.shape[-1]))


def cat(x, y, can_reorder=False, dim=0):
    return pair(x, y, lambda a, b: np.concatenate([a, b], dim))


def split(x):
    return x[..., 0], x[..., 1]


def gather(x, index, axis):
    if np.any((index.value < 0) | (index.value >= x.shape[axis])):
        raise Undecided("an index out of bounds")
    return x.moved(lambda v: np.take_along_axis(v, index.value.astype(np.int64), axis))


def multiple_of(x, values):
    return x


max_contiguous = max_constancy = multiple_of

# ---- Elementwise


def where(condition, x, y):
    if not is_number(condition):
        condition = convert(condition, int1)
    if isinstance(x, Pointer):
        return Pointer(x.memory, np.where(condition.value, x.at, y.at))
    if is_number(x) and is_number(y):
        x, y, t = number(x, int32), number(y, int32), int32
    elif isinstance(x, Tile) and isinstance(y, Tile) and x.type is y.type:  # float8 too
        t = x.type
    else:
        x, y, t = operands(x, y)
    chosen = condition if is_number(condition) else condition.value
    bound = None if x.exact and y.exact else np.where(chosen, x.bound, y.bound)
    return Tile(t, np.where(chosen, x.value, y.value), bound)


def widened(x):
    """As extremes take it: numbers have a type of their own, not that of what they meet."""
    if is_number(x):
        return number(x, float32 if isinstance(x, float) else int32)
    return x if x.type is not bfloat16 else convert(x, float32)


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
    return Tile(float32, round_to(total, float32),
                np.where(total == round_to(total, float32), 0, unit_of(total, float32)))


def approximate(function, slope, ulps):
    """A function of float32: `slope` bounds its derivative near x."""

    def apply(x):
        if x.type is not float32:
            raise Undecided("a function of another type than float32")
        with np.errstate(all="ignore"):
            value = function(x.value)
            spread = slope(x.value) * x.bound * 1.01
        if np.any(np.isnan(value) | np.isinf(value) | np.isnan(spread)) or np.any(x.bound > 0.01 +
                                                                                  np.abs(x.value) / 100):
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
    return t


def lowest_bit(x):
    """The largest power of two that all are multiples of."""
    if x.size and np.max(np.abs(x)) < 2.0**44 and np.array_equal(fine := np.rint(scaled := x * 2.0**8), scaled):  # most are
        bits = int(np.bitwise_or.reduce(fine.astype(np.int64), axis=None))
        return (bits & -bits) * 2.0**-8 if bits else 1.0
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
    return t if t.bits >= 32 else float32 if t.is_float else int32


def extreme_along(pick, pick_index):

    def apply(x, axis=None, keep_dims=False, return_indices=False):
        x = convert(x, extreme_type(x.type))
        if return_indices:
            return apply(x, axis, keep_dims), index_of(pick_index)(x, axis, keep_dims=keep_dims)
        return reduced(x, axis, keep_dims, lambda x, axis:
                       (x.type, pick(x.value, axis=axis), np.max(x.bound, axis=axis)))

    return apply


max, min = extreme_along(np.max, np.argmax), extreme_along(np.min, np.argmin)  # noqa: A001


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
    """Of a tile, or of several in a tuple, whose elements are combined together: each with the one 1, 2, 4, ... before."""
    tiles = x if isinstance(x, tuple) else (x, )
    results, step = [flip(t, axis) if reverse else t for t in tiles], 1
    while step < tiles[0].shape[axis]:
        first, before, behind = ([t.moved(lambda v: np.take(v, part, axis)) for t in results]
                                 for part in (np.arange(step), np.arange(tiles[0].shape[axis] - step),
                                              np.arange(step, tiles[0].shape[axis])))
        combined = combine_fn(*before, *behind)
        combined = combined if isinstance(combined, tuple) else (combined, )
        results = [concatenated(f, convert(c, f.type), axis) for f, c in zip(first, combined)]
        step *= 2
    if not all(t.exact for t in results):
        raise Undecided("a scan of numbers within bounds")
    results = [flip(r, axis) if reverse else r for r in results]
    return tuple(results) if isinstance(x, tuple) else results[0]


def concatenated(x, y, axis):
    return Tile(x.type, np.concatenate([x.value, y.value], axis), np.concatenate([x.bound, y.bound], axis))


def reduce(x, axis, combine_fn, keep_dims=False):
    results = associative_scan(x, axis, combine_fn)
    last = [
        t.moved(lambda v: np.take(v, [-1], axis) if keep_dims else np.take(v, -1, axis))
        for t in (results if isinstance(x, tuple) else (results, ))
    ]
    return tuple(last) if isinstance(x, tuple) else last[0]


def sort(x, dim=None, descending=False):
    if not x.exact:
        raise Undecided("the order of numbers within bounds")
    value = np.sort(x.value, -1)
    return Tile(x.type, value[..., ::-1] if descending else value)


def topk(x, k):
    if k < x.shape[-1]:
        x = convert(x, extreme_type(x.type))
    return sort(x, descending=True)[..., :k]


def histogram(x, num_bins, mask=None):
    keep = (x.value >= 0) & (x.value < num_bins)
    if mask is not None:
        keep = keep & convert(mask, int1).value
    return Tile(int32, np.bincount(x.value[keep].astype(np.int64), minlength=num_bins))


# ---- Products


class Sums(Tile):
    """What a product of float tiles gives. What is added to it may be where the tensor cores begin, which cut off digits of
    all that they add up: as if it had been the product's accumulator. `sizes`: sums of absolute values; `digits`: those
    that are kept of a sum of `depth` products; `small`: of the lowest bit of each product."""

    def __init__(self, value, bound, sizes, small, digits, depth):
        self.exactly, self.of = (value, bound), (sizes, small, digits, depth)
        exact = np.max(sizes, initial=0) <= small * 2.0**digits and not np.any(bound)
        slack = 0 if exact else sizes * (depth + 1) * 2.0**-digits
        super().__init__(float32, round_to(value, float32), bound * 1.01 + slack)

    def begun_with(self, acc):
        (value, bound), (sizes, small, digits, depth) = self.exactly, self.of
        return Sums(value + acc.value, bound + acc.bound, sizes + np.abs(acc.value), np.minimum(small, lowest_bit(acc.value)), digits,
                    depth)

    def __add__(self, other):
        if isinstance(other, Tile) and other.type is float32 and other.shape == self.shape:
            return self.begun_with(other)
        return super().__add__(other)

    __radd__ = __add__


def dot(x, y, acc=None, input_precision=None, out_dtype=None, max_num_imprecise_acc=None):
    if not x.type.is_float:
        x, y = (v.value.astype(np.float64) for v in (x, y))  # exact for bytes, and quicker
        most = np.matmul(np.abs(x), np.abs(y)) + (0 if acc is None else np.abs(acc.value.astype(np.float64)))
        if np.any(most > np.iinfo(np.int32).max):
            raise Undecided("sums of integers beyond int32, which end there or wrap around as the instruction has it")
        product = Tile(int32, np.matmul(x, y).astype(np.int32))
        return product if acc is None else acc + product
    value = np.matmul(x.value, y.value)
    bound = np.zeros(value.shape)
    if not (x.exact and y.exact):
        bound = np.matmul(np.abs(x.value) + x.bound, y.bound) + np.matmul(x.bound, np.abs(y.value))
    sizes = np.matmul(np.abs(x.value), np.abs(y.value))
    if x.type in (float32, ) and input_precision != "ieee" and any(
            np.any(round_to(v.value, TF32) != v.value) for v in (x, y)):
        bound = bound + sizes * 2.0**-9
    small = lowest_bit(x.value) * lowest_bit(y.value)
    sums = Sums(value, bound, sizes, small, 13 if x.type.is_float8 else 22, x.shape[-1])
    return sums if acc is None else sums.begun_with(acc)


E2M1 = np.array([0, .5, 1, 1.5, 2, 3, 4, 6])
FORMATS = {"e4m3": BY_NAME["float8e4nv"], "e5m2": BY_NAME["float8e5"], "bf16": bfloat16, "fp16": BY_NAME["float16"]}


def unpacked(x, format_, axis):
    """An operand in the type of its format; those of 4 bits, two in a byte along the axis, in bfloat16."""
    if format_ == "e2m1":
        codes = np.stack([x.value & 15, x.value >> 4], axis + 1)
        codes = codes.reshape([2 * n if a == axis else n for a, n in enumerate(x.shape)])
        return Tile(bfloat16, np.where(codes & 8, -1, 1) * E2M1[codes & 7])
    return x if x.type.is_float else Tile(FORMATS[format_], float8_values(FORMATS[format_])[x.value])


def dot_scaled(lhs, lhs_scale, lhs_format, rhs, rhs_scale, rhs_format, acc=None, lhs_k_pack=True, rhs_k_pack=True):
    x, y = unpacked(lhs, lhs_format, 1 if lhs_k_pack else 0), unpacked(rhs, rhs_format, 0 if rhs_k_pack else 1)
    plain = x.type.is_float8 and y.type.is_float8 and lhs_scale is None and rhs_scale is None
    if not plain:
        type_ = BY_NAME["float16"] if "fp16" in (lhs_format, rhs_format) else bfloat16
        x, y = convert(x, type_), convert(y, type_)
    if lhs_scale is not None:
        x = scaled(x, np.repeat(2.0**(lhs_scale.value.astype(int) - 127), 32, axis=1))
    if rhs_scale is not None:
        y = scaled(y, np.repeat(2.0**(rhs_scale.value.astype(int) - 127), 32, axis=1).T)
    return dot(x, y, acc)


def scaled(x, by):
    return rounded(x.value * by, x.slack, x.type)


# ---- Programs


def cdiv(x, y):
    return (x + y - 1) // y


def for_range(*bounds, **options):
    """range and tl.range: the numbers of a loop as values of the kernel, in the type in which its bounds meet."""
    types = [b.type if isinstance(b, Tile) else int32 for b in (*bounds, 1)[:3]]
    type_ = functools.reduce(common, types)
    with iterations.Loop() as loop:
        for i in numbers_of(bounds):
            loop.number += 1
            yield Tile(type_, i)


def numbers_of(bounds):
    return builtins.range(*(b.__index__() if isinstance(b, Tile) else int(b) for b in bounds))


def static_range(*bounds):
    """As many statements behind each other."""
    return (Tile(int32, i) for i in numbers_of(bounds))


class Language:
    """What `tl` is to a program of a launch."""

    constexpr = int

    def __init__(self, program, grid):
        self.program, self.grid = program, grid

    def program_id(self, axis):
        return Tile(int32, self.program[axis])

    def num_programs(self, axis):
        return Tile(int32, self.grid[axis])

    range = staticmethod(for_range)

    def __getattr__(self, name):
        return BY_NAME[name] if name in BY_NAME else globals()[name]


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
                iterations.begin()
                space["kernel"](**{
                    name: Pointer(a, 0) if isinstance(a, Memory) else Tile(a[0], a[1])
                    for name, a in arguments.items()
                })
                iterations.check_order()
