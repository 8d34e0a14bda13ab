"""Tiles in double precision and their arithmetic. Each element of a float tile has a bound on how far a right implementation may
be from it: 0 as long as all that it follows from is exact, or rounded in one way alone. What hangs on more than that (a
comparison within the bounds, say) is Undecided."""

import functools

import numpy as np

from element_types import Undecided, common, common_with_number, float32, float64, integer_in, int1, round_to


NUMBERS = frozenset((bool, int, float))


def is_number(x):
    return type(x) in NUMBERS


def some(x):
    """Whether there is a true one; quicker than any()."""
    return np.count_nonzero(x) != 0


class Tile:
    """Values and bounds of a tile; of a scalar with the shape (). Most tiles are exact, and have no array of bounds:
    `slack` is None then."""

    __array_ufunc__ = None

    def __init__(self, type_, value, bound=None):
        self.type, self.value, self.slack = type_, np.asarray(value, type_.held), None
        if not type_.is_float:
            return
        if some(np.isnan(self.value)):
            raise Undecided("a NaN")
        if bound is not None:
            bound = np.asarray(bound, np.float64)
            if some(bound):
                self.slack = bound if bound.shape == self.value.shape else np.broadcast_to(bound, self.value.shape)

    shape = property(lambda self: self.value.shape)
    dtype = property(lambda self: self.type)
    T = property(lambda self: trans(self))

    exact = property(lambda self: self.slack is None)
    bound = property(lambda self: np.zeros(self.value.shape) if self.slack is None else self.slack)

    def moved(self, move):
        """The same elements elsewhere."""
        result = object.__new__(Tile)
        result.type, result.value = self.type, np.asarray(move(self.value))
        result.slack = None if self.slack is None else np.asarray(move(self.slack))
        return result

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

    def __pow__(self, exponent):
        return power(self, exponent)

    def __invert__(self):
        return Tile(self.type, ~self.value)

    def __hash__(self):
        return id(self)


@functools.lru_cache(4096, typed=True)
def number(x, t):
    """A number of the source as a value of the type. (-0.0 may be that of 0.0: nothing tells them apart.)"""
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
    return rounded(value, x.slack, t)


def as_value(x, t):
    return number(x, t) if is_number(x) else convert(x, t)


def rounded(value, bound, t, inexact=False):
    """Numbers rounded to t once; `inexact`: or not at all, if the compiler contracts. `bound` is None for exact ones."""
    result = round_to(value, t)
    total = bound
    if inexact and some(result != value):
        error = np.where(np.isfinite(value) & np.isfinite(result), np.abs(result - value), 0)
        total = error if bound is None else bound + error
    if bound is not None:  # those that a neighbour was rounded to
        total = total + np.where(bound > 0, 2 * unit_of(result, t), 0)
    return Tile(t, result, total)


def bound_of(x, y, of_both):
    """of_both() if one of the tiles has bounds."""
    return None if x.exact and y.exact else of_both()


def unit_of(value, t):
    """Half a unit in the last place."""
    with np.errstate(invalid="ignore"):
        return np.where(np.isfinite(value), np.maximum(np.abs(value), 2.0**t.lowest) * t.epsilon, 0)


def digits(value):
    """How many binary digits a double has, from the first one to the last that is not 0."""
    mantissa = np.ldexp(np.frexp(np.where(np.isfinite(value), value, 0))[0], 53).astype(np.int64)
    return np.where(mantissa != 0, 54 - np.frexp((mantissa & -mantissa).astype(np.float64))[1], 0)


def operands(x, y, divides=False):
    """Two operands in the type in which they meet, and that type."""
    if is_number(x) and is_number(y):
        raise AssertionError("Python computes what numbers give")
    if is_number(x) or is_number(y):
        tile, other = (y, x) if is_number(x) else (x, y)
        t = common_with_number(tile.type, other, divides)
    else:
        t = common(x.type, y.type, divides)
    return as_value(x, t), as_value(y, t), t


def add(x, y, sign=1):
    x, y, t = operands(x, y)
    if t.is_float:
        value = x.value + y.value if sign > 0 else x.value - y.value
        return rounded(value, bound_of(x, y, lambda: x.bound + y.bound), t)
    if t is int1:
        raise Undecided("arithmetic on int1")
    return Tile(t, x.value + y.value if sign > 0 else x.value - y.value)


def multiply(x, y):
    x, y, t = operands(x, y)
    if t.is_float:
        bound = bound_of(x, y, lambda: np.abs(x.value) * y.bound + np.abs(y.value) * x.bound + x.bound * y.bound)
        value = x.value * y.value
        if t is float64 and np.any(long := digits(x.value) + digits(y.value) > 53):  # `value` is rounded already
            bound = (0 if bound is None else bound) + np.where(long, unit_of(value, t), 0)
        return rounded(value, bound, t, inexact=True)
    if t is int1:
        raise Undecided("arithmetic on int1")
    return Tile(t, x.value * y.value)


def product_of_power(x, y):
    """A product that no sum contracts."""
    value = x.value * y.value
    bound = bound_of(x, y, lambda: np.abs(x.value) * y.bound + np.abs(y.value) * x.bound + x.bound * y.bound)
    return rounded(value, bound, x.type)


def power(x, exponent):
    """Of floats, to known exponents from 1 to 4: products of rounded squares."""
    if not x.type.is_float or x.type.bits < 32:
        raise Undecided("a power of another type")
    square = product_of_power(x, x)
    return {1: lambda: x, 2: lambda: square, 3: lambda: product_of_power(square, x), 4: lambda: product_of_power(square, square)}[exponent]()


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
        if not (x.exact and y.exact):
            bound = x.bound + y.bound
            with np.errstate(invalid="ignore"):
                if np.any((np.abs(x.value - y.value) <= bound) & (bound > 0)):
                    raise Undecided("a comparison within bounds")
        return Tile(int1, function(x.value, y.value))

    return apply


def integer_or_float_fits(x, y):
    tile, literal = (y, x) if is_number(x) else (x, y)
    return tile.type.is_float or isinstance(literal, float) or integer_in(literal, tile.type)


def cast(x, dtype, fp_downcast_rounding=None, bitcast=False):
    if not bitcast:
        return convert(x, dtype)
    if x.type.is_float or dtype.is_float or x.type.bits != dtype.bits:
        raise Undecided("the bits of a float")
    return Tile(dtype, np.ascontiguousarray(x.value).view(dtype.held).reshape(x.shape))


def as_shape(shape):
    return tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape


def broadcast_to(x, *shape):
    shape = tuple(as_shape(shape))
    return x if x.shape == shape else x.moved(lambda v: np.broadcast_to(v, shape))


def trans(x, *dims):
    dims = as_shape(dims) or (*range(len(x.shape) - 2), len(x.shape) - 1, len(x.shape) - 2)
    return x.moved(lambda v: np.transpose(v, dims))


OPERATORS = {
    "add": add,
    "sub": lambda x, y: add(x, y, -1),
    "mul": multiply,
    "truediv": divide,
    "floordiv": quotient,
    "mod": remainder,
    "and": bitwise(np.bitwise_and),
    "or": bitwise(np.bitwise_or),
    "xor": bitwise(np.bitwise_xor),
    "lshift": shift(np.left_shift),
    "rshift": shift(np.right_shift)
}
for _name, _function in OPERATORS.items():
    setattr(Tile, f"__{_name}__", lambda x, y, f=_function: f(x, y) if is_number(y) or isinstance(y, Tile) else NotImplemented)
    setattr(Tile, f"__r{_name}__", lambda x, y, f=_function: f(y, x))
for _name, _function in (("lt", np.less), ("le", np.less_equal), ("gt", np.greater), ("ge", np.greater_equal),
                         ("eq", np.equal), ("ne", np.not_equal)):
    setattr(Tile, f"__{_name}__", lambda x, y, f=compare(_function): f(x, y))
