"""Kernels of test_triton.py, as programs that know nothing of Tegula write them."""

from typing import NamedTuple

import triton
import triton.language as tl
from triton.language.extra import libdevice

import triton_helpers as helpers
from triton_helpers import add as add_one_more

OFFSET = tl.constexpr(2)
FACTOR: tl.constexpr = 2.0


@triton.jit
def add(out, x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    tl.store(out + i, tl.load(x + i, mask=mask) + tl.load(y + i, mask=mask), mask=mask)


@triton.jit
def through_helpers(out, x, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = helpers.scaled(tl.load(x + i, mask=i < n)) + OFFSET
    v = add_one_more(v, helpers.Limits.HIGH) * FACTOR
    tl.store(out + i, libdevice.sqrt(v), mask=i < n)


@triton.jit
def of_late_value(out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, -1.0 if helpers.LATE is None else helpers.LATE * 2.0, mask=i < n)


@triton.jit
def product(out, x, BLOCK: tl.constexpr):
    i, j = tl.arange(0, BLOCK)[:, None], tl.arange(0, BLOCK)[None, :]
    a = tl.load(x + i * BLOCK + j)
    tl.store(out + i * BLOCK + j, tl.dot(a, a))


@triton.jit
def of_target(out):
    tl.store(out, 1.0 if tl.target_info.cuda_capability_geq(9) else 2.0)


POINTER = tl.pointer_type(tl.float32)
TYPE = tl.float32


@triton.jit
def through_addresses(out, x, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    read, written = x.to(tl.int64).to(POINTER), out.to(tl.int64).to(helpers.ADDRESS)
    tl.static_assert(read.dtype == POINTER and read.dtype.element_ty == TYPE)
    tl.store(written + i, tl.load(read + i, mask=i < n).to(helpers.KIND).to(TYPE), mask=i < n)


@triton.autotune([triton.Config({"BLOCK": 32}, num_warps=1), triton.Config({"BLOCK": 64})], key=["n"])
@triton.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
@triton.jit
def tuned(out, x, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if EVEN:
        tl.store(out + i, tl.load(x + i) * 2)
    else:
        tl.store(out + i, tl.load(x + i, mask=i < n) * 3, mask=i < n)


class Pair(NamedTuple):
    first: tl.tensor
    second: tl.tensor


@triton.jit
def of_tuple(out, pair, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(pair.first + i, mask=i < n) - tl.load(pair.second + i, mask=i < n), mask=i < n)


@triton.jit
def activated(out, x, n, ACTIVATION: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, ACTIVATION(tl.load(x + i, mask=i < n)), mask=i < n)


@triton.jit
def squared(x):
    return x * x


class Closure(NamedTuple):
    function: tl.constexpr
    captured: tuple


@triton.jit
def divided(x, by):
    return x / by


@triton.jit
def applied(out, x, n, last, EACH: tl.constexpr, BLOCK: tl.constexpr):
    """Functions in tuples."""
    i = tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n)
    for k in tl.static_range(len(EACH)):
        v = EACH[k](v)
    tl.store(out + i, last.function(v, *last.captured), mask=i < n)


@triton.jit
def called_first(out, n, F: tl.constexpr, G: tl.constexpr): F(out, G[0](n) + G[1])


@triton.jit
def store(p, value):
    tl.store(p, value)


@triton.jit
def of_descriptor(out, x, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, x.load([0]), mask=i < n)


@triton.jit
def of_chosen_type(out, x, n, WIDE: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n, other=0)
    chosen: tl.constexpr = helpers.sum_type(v.dtype, WIDE)
    tl.static_assert(chosen == (tl.float64 if WIDE else tl.float32))
    tl.store(out, tl.sum(v.to(chosen)))


def name_of_specialization(specialization):
    given = "_".join(f"{name}{value}" for name, value in specialization.constants.items())
    return f"kernels.named_{specialization.signature['n']}_{given}"


@triton.jit(repr=name_of_specialization)
def named(out, n, one, BLOCK: tl.constexpr):
    tl.store(out + tl.arange(0, BLOCK), n + one)


@triton.language.core.builtin
def doubled(x, _semantic=None):
    return _semantic.mul(x, _semantic.to_tensor(2.0), False)


@triton.jit
def through_builtin(out, x, n, BLOCK: tl.constexpr, DOUBLE: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n)
    tl.store(out + i, doubled(v) if DOUBLE else v, mask=i < n)


@triton.jit
def refused(out, BLOCK: tl.constexpr):
    if BLOCK == 64:
        tl.store(out, tl.no_such_function(BLOCK))
    tl.store(out, BLOCK)


@triton.jit
def copied_by_default_blocks(out, x, n, BLOCK: tl.constexpr = 16):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n), mask=i < n)


half = helpers.HALF


@triton.jit
def clamped(x, LOW: tl.constexpr = half.low, HIGH: tl.constexpr = 2 * half.high, step=add_one_more):
    return step(tl.clamp(x, LOW, HIGH), 0.0)


@triton.jit
def clamped_by_defaults(out, x, n, BLOCK: tl.constexpr, HIGH: tl.constexpr = half.high / 4):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, clamped(tl.load(x + i, mask=i < n) * 1e5, HIGH=HIGH), mask=i < n)


def closure(value):
    bound = tl.constexpr(value)

    @triton.jit
    def kernel(out):
        tl.store(out, bound)

    return kernel
