"""What the record of Triton's semantics covers: expressions of the kernel language, operand types, operands.

A case is an expression of the operands `x` and `y` (tiles of 32 elements a program). Cases of the same operands form a
group. `record_triton.py` runs the groups under Triton and writes what each case gives, its type and its bits, to
`triton_semantics.json.gz`; `test_semantics.py` compares Tegula with that.

Where Triton leaves a result undefined (`defined`, `defined_along`), it counts as 0 on both sides: division by zero and
of the least integer by -1, shifts by the width or more, integers of floats out of range, and where NaNs go in an
order. So does what Triton gets wrong and Tegula does not: remainders of floats next to multiples, float8e5's infinities
and NaNs as bfloat16, and functions that take denormal numbers for zero.
"""

import collections
import gzip
import hashlib
import itertools
import json
import math
import pathlib
import random
import re
import struct

DATA = pathlib.Path(__file__).with_name("triton_semantics.json.gz")
LANES = 32  # elements of a tile, one a thread

# ---- Types: bits, kind, pairs of (exponent bits, mantissa bits) of floats

Type = collections.namedtuple("Type", "name bits kind")
TYPES = {
    name: Type(name, bits, kind)
    for name, bits, kind in [("int1", 1, "u"), ("int8", 8, "i"), ("int16", 16, "i"), ("int32", 32, "i"),
                             ("int64", 64, "i"), ("uint8", 8, "u"), ("uint16", 16, "u"), ("uint32", 32, "u"),
                             ("uint64", 64, "u"), ("float16", 16, "f"), ("bfloat16", 16, "f"), ("float32", 32, "f"),
                             ("float64", 64, "f"), ("float8e4nv", 8, "f"), ("float8e5", 8, "f")]
}
NUMBERS = [name for name in TYPES if not name.startswith("float8")]
FORMATS = {"float16": (5, 10), "bfloat16": (8, 7), "float32": (8, 23), "float64": (11, 52), "float8e4nv": (4, 3),
           "float8e5": (5, 2)}


def itemsize(name):
    return max(8, TYPES[name].bits) // 8


def value_of(name, bits):
    """The number that bits of a type stand for: an int or a float."""
    t = TYPES[name]
    if t.kind != "f":
        return bits - (1 << t.bits) if t.kind == "i" and bits >> (t.bits - 1) else bits
    exponent_bits, mantissa_bits = FORMATS[name]
    exponent, mantissa = bits >> mantissa_bits & (1 << exponent_bits) - 1, bits & (1 << mantissa_bits) - 1
    sign, bias = -1.0 if bits >> (t.bits - 1) else 1.0, (1 << exponent_bits - 1) - 1
    if is_nan(name, bits):
        return float("nan")
    if exponent == (1 << exponent_bits) - 1 and name != "float8e4nv":
        return sign * float("inf")
    scale = 2.0**(max(exponent, 1) - bias - mantissa_bits) if name != "float64" else 0.0
    if name == "float64":
        return struct.unpack("d", struct.pack("Q", bits))[0]
    return sign * scale * (mantissa + ((1 << mantissa_bits) if exponent else 0))


def is_nan(name, bits):
    if TYPES[name].kind != "f":
        return False
    exponent_bits, mantissa_bits = FORMATS[name]
    magnitude = bits & (1 << exponent_bits + mantissa_bits) - 1
    if name == "float8e4nv":
        return magnitude == 0x7F
    return magnitude > ((1 << exponent_bits) - 1) << mantissa_bits


def specials(name):
    """Bits of the values of a type that tell most: zeros, limits, neighbours of limits, NaN."""
    t = TYPES[name]
    if t.bits == 1:
        return [0, 1, 1, 0, 1, 0, 0, 1]
    if t.kind == "i":
        return [v % (1 << t.bits) for v in (0, 1, -1, 3, -7, (1 << t.bits - 1) - 1, -1 << t.bits - 1, 100)]
    if t.kind == "u":
        return [v % (1 << t.bits) for v in (0, 1, -1, 3, 7, 1 << t.bits - 1, (1 << t.bits - 1) - 1, 100)]
    exponent_bits, mantissa_bits = FORMATS[name]
    sign, one = 1 << t.bits - 1, (1 << exponent_bits - 1) - 1 << mantissa_bits
    infinity = (1 << exponent_bits) - 1 << mantissa_bits
    nan, largest = (0x7F, 0x7E) if name == "float8e4nv" else (infinity | 1 << mantissa_bits - 1, infinity - 1)
    half = 1 << mantissa_bits - 1
    return [0, sign, one, sign | one + half, nan, infinity if name != "float8e4nv" else largest, sign | largest, 1]


def randoms(name, count, seed):
    """Bits of random values, half of them of moderate size."""
    draw, t = random.Random(f"{name} {seed}"), TYPES[name]
    out = []
    for i in range(count):
        bits = draw.getrandbits(t.bits)
        if i % 2 and t.kind == "f":  # of exponents next to 1.0's
            exponent_bits, mantissa_bits = FORMATS[name]
            exponent = (1 << exponent_bits - 1) - 1 + draw.randrange(-2, 4)
            bits = bits & ~((1 << exponent_bits) - 1 << mantissa_bits) | exponent << mantissa_bits
        elif i % 2 and t.bits > 4:
            bits = draw.randrange(-9, 10) % (1 << t.bits)
        out.append(bits)
    return out


def operands(types):
    """Bits of all operands, a column each: every pair of special values (or every value), then random ones."""
    if len(types) == 1:
        return [specials(types[0]) * 4 + randoms(types[0], 3 * LANES, 1)]
    pairs = list(itertools.product(specials(types[0]), specials(types[1])))
    return [[p[i] for p in pairs] + randoms(t, 2 * LANES, i) for i, t in enumerate(types)]


# ---- Groups of cases

Group = collections.namedtuple("Group", "name types cases scalar")  # scalar: one value a program


def _binary():
    expressions = [f"x {op} y" for op in "+ - * / // % << >> & | ^ < <= == != > >=".split()]
    expressions += ["tl.maximum(x, y)", "tl.minimum(x, y)", "tl.maximum(x, y, propagate_nan=tl.PropagateNan.ALL)",
                    "tl.where(x == x, x, y)", "tl.where(x != x, x, y)"]
    for a, b in itertools.product(NUMBERS, NUMBERS):
        yield Group(f"{a}, {b}", (a, b), expressions, False)


_LITERALS = ["True", "1", "-1", "200", "40000", "2147483648", "4294967296", "0.1", "2.5", "1e300"]


def _literals():
    forms = ["x + {}", "{} - x", "x * {}", "x / {}", "x // {}", "{} // x", "x % {}", "x & {}", "x < {}", "{} == x",
             "tl.maximum(x, {})", "tl.where(x == x, {}, x)"]
    for t in NUMBERS:
        yield Group(f"{t}, literal", (t, ), [f.format(v) for f in forms for v in _LITERALS], False)


def _casts():
    for t in TYPES:
        same = [to for to in TYPES if TYPES[to].bits == TYPES[t].bits]
        yield Group(f"{t}, cast", (t, ), [f"x.to(tl.{to})" for to in TYPES] +
                    [f"x.to(tl.{to}, bitcast=True)" for to in same if to != t], False)


def _functions():
    names = ["abs", "floor", "ceil", "exp", "exp2", "log", "log2", "sin", "cos", "sqrt", "sqrt_rn", "rsqrt", "erf",
             "sigmoid"]
    cases = ["-x", "+x", "~x", "x != 0"] + [f"tl.{n}(x)" for n in names]
    cases += ["tl.umulhi(x, x)", "tl.fdiv(x, x)", "tl.div_rn(x, x)", "tl.cdiv(x, 3)",
              "tl.clamp(x, -1.0, 2.0)", "tl.clamp(x, -1.0, 2.0, propagate_nan=tl.PropagateNan.ALL)",
              "tl.cast(x, tl.float16, fp_downcast_rounding='rtz')"]
    for t in NUMBERS:
        fma = ["tl.fma(x, x, x)"] if TYPES[t].kind == "f" else []
        yield Group(f"{t}, functions", (t, ), cases + fma, False)


def _along():
    """Functions along an axis. Numbers are small or ties, so that the order of a sum does not show."""
    scalars = ["tl.sum(x)", "tl.max(x)", "tl.min(x)", "tl.argmax(x, 0)", "tl.argmin(x, 0)", "tl.xor_sum(x)",
               "tl.reduce_or(x, 0)", "tl.max(x, return_indices=True)[0]", "tl.sum(x, dtype=tl.float32)",
               "tl.sum(x, dtype=tl.int64)", "tl.max(x, 0, return_indices=True, return_indices_tie_break_left=False)[0]"]
    tiles = ["tl.cumsum(x, 0)", "tl.cumprod(x, 0)", "tl.cumsum(x, 0, reverse=True)",
             "tl.cumsum(x, 0, dtype=tl.float32)", "tl.sort(x)", "tl.sort(x, descending=True)", "tl.flip(x)",
             "tl.softmax(x)"]
    for t in NUMBERS:
        yield Group(f"{t}, reductions", (t, ), scalars, True)
        yield Group(f"{t}, scans", (t, ), tiles, False)


def groups():
    return [*_binary(), *_literals(), *_casts(), *_functions(), *_along()]


def group_operands(group):
    """Bits of the operands of a group's kernel, a column each; the length is a multiple of LANES."""
    if group.name.endswith(("reductions", "scans")):
        return [_along_operands(group.types[0])]
    return operands(group.types)


def _along_operands(name):
    """Rows of LANES small numbers with ties, one with a NaN, one of extremes, one of zeros of both signs."""
    draw, t = random.Random(name), TYPES[name]
    rows = []
    for row in range(4):
        values = [draw.choice([0, 1, 2, 3, -2]) if t.kind != "u" else draw.choice([0, 1, 2, 3]) for _ in range(LANES)]
        if row == 3:
            values = [draw.choice([0, 1]) for _ in range(LANES)]
        rows.append([encode_small(name, v) for v in values])
    extremes = specials(name)
    if t.kind == "f":
        rows[1][5] = extremes[4]  # NaN
        rows[2] = [draw.choice(extremes[:2]) for _ in range(LANES)]
        rows[3][7], rows[3][9] = extremes[5], extremes[6]
    else:
        rows[1] = [draw.choice(extremes) for _ in range(LANES)]
    return [bits for row in rows for bits in row]


def encode_small(name, v):
    """Bits of a small integer in a type."""
    t = TYPES[name]
    if t.kind != "f":
        return v % (1 << t.bits)
    if v == 0:
        return 0
    exponent_bits, mantissa_bits = FORMATS[name]
    exponent = abs(v).bit_length() - 1
    mantissa = (abs(v) << mantissa_bits >> exponent) - (1 << mantissa_bits)
    return (v < 0) << t.bits - 1 | exponent + (1 << exponent_bits - 1) - 1 << mantissa_bits | mantissa


# ---- Kernels

IMPORTS = "import triton\nimport triton.language as tl\n\n\n"


def kernel_text(group, cases, results):
    """kernel(x_ptr[, y_ptr], out0, ...), which stores the value of each case. `results`: types to check, or None."""
    inputs = "xy"[:len(group.types)]
    outs = [f"out{i}" for i in range(len(cases))]
    lines = ["@triton.jit", f"def kernel({', '.join([f'{i}_ptr' for i in inputs] + outs)}):",
             f"    o = tl.program_id(0) * {LANES} + tl.arange(0, {LANES})"]
    lines += [f"    {i} = tl.load({i}_ptr + o)" for i in inputs]
    for i, case in enumerate(cases):
        lines.append(f"    r{i} = {case}")
        if results:
            lines.append(f"    tl.static_assert(r{i}.dtype == tl.{results[i]})")
        lines.append(f"    tl.store(out{i} + {'tl.program_id(0)' if group.scalar else 'o'}, r{i})")
    return "\n".join(lines) + "\n"


# ---- Results

_UNITS = {"exp": 4, "exp2": 4, "log": 4, "log2": 4, "sqrt": 2, "rsqrt": 4, "erf": 4, "sigmoid": 8, "softmax": 8,
          "fdiv": 4, "sin": None, "cos": None}


def tolerance(case, result):
    """Units in the last place by which a case may differ: 0, unless the hardware approximates it; None: any."""
    if TYPES[result].kind != "f":
        return 0
    if " / " in case and result == "float32":
        return 4
    if " % " in case:
        return 1
    name = re.match(r"tl\.(\w+)\(", case)
    return _UNITS.get(name.group(1), 0) if name else 0


def defined(case, types, result, row):
    """Whether Triton defines the result of a case for operands with these bits, and the hardware computes it."""
    values, out = [value_of(t, bits) for t, bits in zip(types, row)], TYPES[result]
    if case.startswith("x.to") and "bitcast" not in case and TYPES[types[0]].kind == "f" and out.kind != "f":
        low = -(1 << out.bits - 1) if out.kind == "i" else 0
        return result == "int1" or low - 1 < values[0] < low + (1 << out.bits)
    if types == ("float8e5", ) and case == "x.to(tl.bfloat16)":
        return math.isfinite(values[0])
    if re.match(r"tl\.(ceil|floor|r?sqrt)\(", case) and types == ("float32", ):
        return not 0 < abs(values[0]) < 2.0**-126
    operator = re.search(r" (//|%|<<|>>) ", case)
    if not operator:
        return True
    a, b = (_operand(case[part], values) for part in (slice(operator.start()), slice(operator.end(), None)))
    if out.kind == "f":  # a remainder, which Triton takes of the rounded quotient
        return math.isfinite(a) and 2.0**-14 < abs(b) < math.inf and _is_remainder_exact(a, b)
    a, b = wrap(result, a), wrap(result, b)
    if operator.group(1) in ("<<", ">>"):
        return 0 <= b < out.bits
    return b != 0 and not (out.kind == "i" and b == -1 and a == -1 << out.bits - 1)


def _is_remainder_exact(a, b):
    """Whether the rounded quotient has the integer part of the exact one; 0.1 is another number in each type."""
    quotient = a / b
    if abs(quotient) > 1000:
        return False
    away = abs(quotient - round(quotient))
    return away > 1e-3 or abs(quotient) < 0.5 or away == 0 and b != 0.1


def defined_along(case, name, column, row):
    """Whether Triton defines a case along a row of operands: NaNs have no place in an order, and no integer."""
    values = [value_of(name, bits) for bits in column[row * LANES:(row + 1) * LANES]]
    if "dtype=tl.int" in case:
        return all(map(math.isfinite, values))
    return not re.search("arg|indices|sort", case) or all(v == v for v in values)


def _operand(text, values):
    """The value of an operand: x, y or a literal."""
    if text in ("x", "y"):
        return values["xy".index(text)]
    return int(text == "True") if text.isalpha() else float(text) if "." in text or "e" in text else int(text)


def wrap(name, v):
    """An integer converted to an integer type."""
    t = TYPES[name]
    v %= 1 << t.bits
    return v - (1 << t.bits) if t.kind == "i" and v >> (t.bits - 1) else v


def canonical(group, case, result, data):
    """Bits of a case's results, in order: undefined ones 0, NaNs all alike."""
    size = itemsize(result)
    bits = [int.from_bytes(data[i:i + size], "little") for i in range(0, len(data), size)]
    nan = specials(result)[4] if TYPES[result].kind == "f" else 0
    return masked(group, case, result, [nan if is_nan(result, b) else b for b in bits])


def masked(group, case, result, bits):
    """The first results of a case, the undefined ones 0."""
    columns = group_operands(group)
    if not group.name.endswith(("reductions", "scans")):
        return [b if defined(case, group.types, result, row) else 0 for b, row in zip(bits, zip(*columns))]
    return [b if defined_along(case, group.types[0], columns[0], i if group.scalar else i // LANES) else 0
            for i, b in enumerate(bits)]


def digest(result, bits):
    return hashlib.sha256(b"".join(b.to_bytes(itemsize(result), "little") for b in bits)).hexdigest()[:12]


def num_special(group):
    """How many results stand in the record as they are; the rest as their digest."""
    if group.name.endswith(("reductions", "scans")):
        return 2 * LANES
    return 64 if len(group.types) == 2 else LANES


def entry(group, case, result, bits):
    """What the record holds of a case: type, special values in hex, digest of the others (none where the hardware
    approximates)."""
    n = num_special(group)
    digits = itemsize(result) * 2
    values = "".join(f"{b:0{digits}x}" for b in bits[:n])
    return [result, values, digest(result, bits[n:]) if bits[n:] and has_digest(case, result) else ""]


def has_digest(case, result):
    """Whether results beyond the special ones are compared: not those that the hardware approximates, nor sorted rows
    with zeros of both signs, of which Triton makes one kind."""
    return tolerance(case, result) == 0 and not ("sort" in case and TYPES[result].kind == "f")


NO_CODE = "no code"  # what the record holds of a case that only Triton's front end takes; None: it refuses it


def load_record():
    with gzip.open(DATA, "rt") as f:
        return json.load(f)


def save_record(record):
    with gzip.GzipFile(DATA, "wb", mtime=0) as f:
        f.write(json.dumps(record, indent=0, sort_keys=True).encode())


def strict(group):
    """Whether what Triton refuses must be refused: operators, but not functions (those of floats take 16 bits too)."""
    return len(group.types) == 2 or group.name.endswith("literal")
