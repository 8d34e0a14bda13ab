"""Kernels that use all kinds of names of other files."""
import triton
import triton.language as tl
import package.settings as all_settings

from package.ops import double, half, swap
from .elementwise import *
from .. import settings
from ..settings import IS_NPU, NEW_GPU, Mode, Pair, broken, scaled
from .nowhere import missing

MODE = tl.constexpr(Mode.TRIPLE.value)


@triton.jit
def elementwise(out, x, N: tl.constexpr):
    i = tl.arange(0, N)
    v = double(tl.load(x + i)) + half(N)
    v = pick(v, N - 1 - i, 0) * MODE
    if not IS_NPU and settings.PRECISION == "tf32" and all_settings.HAS_GATHER:
        p = swap(Pair(v))
        v = p.first + p.second
    tl.store(out + i, v)


@triton.jit
def of_the_target(out):
    tl.store(out, 1 if NEW_GPU else 0)


@triton.jit
def factor(out, x):
    tl.store(out, scaled(tl.load(x)))


@triton.jit
def uses_broken(out, x):
    tl.store(out, broken(tl.load(x)))


@triton.jit
def uses_missing(out, x):
    tl.store(out, missing(tl.load(x)))


@triton.jit
def uses_unknown(out, x):
    tl.store(out, settings.nothing)
