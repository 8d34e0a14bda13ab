"""Helpers that the kernels of triton_kernels.py find in another module."""

import triton
import triton.language as tl

SCALE = tl.constexpr(3)
BIAS = 0.5


@triton.jit
def scaled(x):
    return x * SCALE


@triton.jit
def add(a, b):  # a name that the other module has as well
    return a + b + 1


class Limits:
    HIGH: tl.constexpr = tl.constexpr(40.0)
