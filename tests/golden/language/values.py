"""Names at compile time and at run time."""
import math
import triton
import triton.language as tl
from triton.language import load as ld
from triton.language.extra import libdevice

WIDTH: tl.constexpr = 16
TWICE = tl.constexpr(WIDTH * 2)
NEG = -float("inf")


@triton.jit
def constants(x, ACT: tl.constexpr, PTR):
    """Everything here is known before the program runs."""
    a, (b, c) = 1, (2, 3)
    a, b = b, a
    shape = (a * WIDTH, TWICE)
    n: tl.constexpr = shape[0] + len(shape) + int(math.log2(TWICE))
    if ACT == "relu" and n > 4:
        d = 5
    elif ACT == "gelu":
        d = undefined_name_in_a_dead_branch
    else:
        raise ValueError("unknown activation")
    ok = PTR is None and 1 < d <= 5 and ACT in ("relu", "gelu")
    tl.static_assert(ok, "constants")
    assert ok, "constants"
    tl.store(x, n + (d if ok else nothing) + triton.next_power_of_2(c + 2) + max(1, c, b))


# check constants x=*i32 ACT='relu' PTR=None


@triton.jit
def modules(x, n):
    i = tl.arange(0, triton.cdiv(31, 2) * WIDTH // 16)
    v = ld(x + i, mask=i < n, other=NEG)
    tl.store(x + i, libdevice.exp(v) + tl.math.exp2(v), mask=i < n)


# check modules x=*f32/16 n=i32/16


@triton.jit
def literals(x, s):
    v = tl.load(x)
    half = 0.5
    tl.store(x, v * 0.5)  # the type of v
    tl.store(x, v * half)  # float32, as an assigned number is a scalar of its own
    tl.store(x, v * s)  # a compiled-in argument is as a literal


# check literals x=*f16 s=0.5


@triton.jit
def ternaries(x, n, p):
    a = n if n > 4 else 4
    b = tl.load(p) if n > 0 else 0.0
    tl.store(x, b + a)


# check ternaries x=*f32 n=i32 p=*f32
