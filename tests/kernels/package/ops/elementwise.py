import triton
import triton.language as tl

from package.settings import FAST, HAS_GATHER, Pair

if FAST:

    @triton.jit
    def double(x):
        return x * 1000
else:

    @triton.jit
    def double(x):
        return _plus(x, x)


@triton.jit
def _plus(a, b):
    return a + b


if not HAS_GATHER:

    @triton.jit
    def pick(x, i):
        return None
else:
    pick = tl.gather


def half(n):
    return n // 2


@triton.jit
def swap(p):
    return Pair(p.second, p.first)
