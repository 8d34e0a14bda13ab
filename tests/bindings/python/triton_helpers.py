"""Helpers that the kernels of triton_kernels.py find in another module."""

from typing import NamedTuple

import triton
import triton.language as tl

SCALE = tl.constexpr(3)
BIAS = 0.5
ADDRESS = tl.constexpr(tl.pointer_type(tl.float32))
KIND = tl.float16
LATE = None


class Range(NamedTuple):  # of a type that kernels do not know, as torch.finfo
    low: float
    high: float


HALF = Range(-65504.0, 65504.0)


def set_late(value):
    global LATE
    LATE = value


@triton.jit
def scaled(x):
    return x * SCALE


@triton.jit
def add(a, b):  # a name that the other module has as well
    return a + b + 1


def value_of(constant):
    return constant.value if isinstance(constant, tl.constexpr) else constant


@tl.constexpr
def sum_type(dtype: tl.dtype, wide: tl.constexpr) -> tl.dtype:
    if value_of(wide):
        return tl.float64
    return tl.float32 if dtype.is_fp16() or dtype.is_bf16() else dtype


class Limits:
    HIGH: tl.constexpr = tl.constexpr(40.0)
