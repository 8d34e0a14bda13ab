"""Element types: how numbers are rounded to them, and how they lie in memory."""

import numpy as np


class Undecided(Exception):
    """The kernel's result is not defined, or the reference cannot tell it."""


class Type:
    """`kind`: b, i, u or f. Of floats: the bits of the fraction with the leading one, the exponent of the smallest
    normal number and the largest number."""

    def __init__(self, name, kind, bits, digits=0, lowest=0, largest=np.inf):
        self.name, self.kind, self.bits = name, kind, bits
        self.digits, self.lowest, self.largest = digits, lowest, largest
        self.is_float = kind == "f"
        self.is_float8 = self.is_float and bits == 8
        # what tiles hold: floats of all kinds are computed in double precision
        self.held = np.dtype(np.float64 if self.is_float else bool if kind == "b" else f"{kind}{bits // 8}")
        self.epsilon = 2.0**-digits  # half a unit in the last place of 1

    def __repr__(self):
        return "tl." + self.name

    @property
    def itemsize(self):
        return max(1, self.bits // 8)


TYPES = [
    Type("int1", "b", 1), *(Type(f"int{n}", "i", n) for n in (8, 16, 32, 64)),
    *(Type(f"uint{n}", "u", n) for n in (8, 16, 32, 64)),
    Type("float8e4nv", "f", 8, 4, -6, 448),
    Type("float8e5", "f", 8, 3, -14, 57344),
    Type("float16", "f", 16, 11, -14, 65504),
    Type("bfloat16", "f", 16, 8, -126, 2.0**127 * (2 - 2.0**-7)),
    Type("float32", "f", 32, 24, -126, 2.0**127 * (2 - 2.0**-23)),
    Type("float64", "f", 64, 53, -1022,
         np.finfo(np.float64).max)
]
BY_NAME = {t.name: t for t in TYPES}
int1, int32, int64, uint32 = (BY_NAME[n] for n in ("int1", "int32", "int64", "uint32"))
float16, bfloat16, float32, float64 = (BY_NAME[n] for n in ("float16", "bfloat16", "float32", "float64"))

TF32 = Type("tf32", "f", 32, 11, -126, 2.0**128)


def round_to(x, to):
    """Doubles rounded to the nearest numbers of a float type, ties to even; float8 saturates."""
    if to is float64:
        return x
    if to is float32 or to is float16:  # which numpy rounds to
        rounded = np.asarray(x, np.float64).astype(storage(to)).astype(np.float64)
        if np.count_nonzero(np.isinf(rounded)) and np.any(np.isinf(rounded) & np.isfinite(x)):
            raise Undecided("a number beyond the type's largest")
        return rounded
    exponent = np.frexp(x)[1]
    unit = np.maximum(exponent - to.digits, to.lowest - to.digits + 1)
    with np.errstate(invalid="ignore"):
        rounded = np.where(np.isfinite(x), np.ldexp(np.rint(np.ldexp(x, -unit)), unit), x)
    if to.is_float8:
        return np.clip(rounded, -to.largest, to.largest)
    if np.any(np.isfinite(x) & (np.abs(rounded) > to.largest)):
        raise Undecided("a number beyond the type's largest")
    return rounded


def float8_values(t):
    """The number that each byte stands for; NaN for those that are no finite number."""
    fraction_bits = t.digits - 1
    code = np.arange(256)
    fraction, exponent = code & (1 << fraction_bits) - 1, code >> fraction_bits & (1 << 7 - fraction_bits) - 1
    value = np.where(exponent == 0, np.ldexp(fraction / 2.0**fraction_bits, t.lowest),
                     np.ldexp(1 + fraction / 2.0**fraction_bits, exponent - 1 + t.lowest))
    value = np.where(value > t.largest, np.nan, value)
    return np.where(code & 128, -value, value)


def decode(raw, t):
    """What bytes of memory (a numpy array of the type's `storage`) hold."""
    if t.is_float8:
        return float8_values(t)[raw]
    if t is bfloat16:
        raw = (raw.astype(np.uint32) << 16).view(np.float32)
    with np.errstate(invalid="ignore"):  # NaNs
        return raw.astype(t.held)


def encode(values, t):
    """The contrary, of numbers that the type has."""
    if t.is_float8:
        known = float8_values(t)[:128]
        finite = np.where(np.isnan(known), np.inf, known)
        return (np.searchsorted(finite, np.abs(values)) | np.signbit(values) << 7).astype(np.uint8)
    if t is bfloat16:
        return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    return values.astype(storage(t))


def storage(t):
    """The numpy type of an array in memory whose elements have the type."""
    if t.is_float8:
        return np.dtype(np.uint8)
    if t is bfloat16:
        return np.dtype(np.uint16)
    return np.dtype(f"f{t.bits // 8}") if t.is_float else t.held


def integer_in(value, t):
    low, high = (0, 2**t.bits - 1) if t.kind in "ub" else (-2**(t.bits - 1), 2**(t.bits - 1) - 1)
    return low <= value <= high


def common(a, b, divides=False):
    """The type in which two operands meet (a and b: types of values, none of a number in the source)."""
    for t in (float64, float32):
        if t in (a, b):
            return t
    if float16 in (a, b):
        return float32 if divides else float16
    if bfloat16 in (a, b):
        return bfloat16 if a is b and not divides else float32
    if a.is_float8 or b.is_float8:
        raise Undecided("arithmetic on float8")
    unsigned = [a.kind != "i", b.kind != "i"]
    if divides and unsigned[0] != unsigned[1]:
        raise Undecided("a division of different signs")
    if unsigned[0] == unsigned[1]:
        return a if a.bits > b.bits else b
    u, s = (a, b) if unsigned[0] else (b, a)
    return u if u.bits >= s.bits else s


def common_with_number(t, number, divides=False):
    """The type in which a value of type t and a number in the source meet."""
    if isinstance(number, float) and not t.is_float:
        return common(t, float32, divides)
    if divides and t in (float16, bfloat16):
        return float32
    return t
