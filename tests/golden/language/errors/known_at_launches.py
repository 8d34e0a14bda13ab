# What only a launch knows is warned of.
import triton
import triton.language as tl
from triton.tools.ragged_tma import load_ragged

SCALE = None
TABLE = ()


def prepare(n):
    global SCALE, TABLE
    SCALE, TABLE = float(n), tuple(range(n))


def make(combine, n):
    step = n // 2

    @triton.jit
    def kernel(x, N: tl.constexpr):
        a = combine(tl.load(x), step)  # error: 'combine' is a name of what stands around 'kernel' # error: 'step' is a name of what stands around 'kernel' (--global step=VALUE gives a value)
        tl.store(x, stepp + a)  # error: unknown name 'stepp'

    return kernel


@triton.jit
def of_tables(x):
    tl.store(x, TABLE[1] * SCALE)  # error: the global 'TABLE' gets its value from a function of the file # error: the global 'SCALE' gets its value from a function of the file (--global SCALE=VALUE gives a value)


# How often an unrolled loop runs is not known, so neither is how many parts there are.
@triton.jit
def parts(x, N: tl.constexpr):
    sums = ()
    for i in tl.static_range(N):
        sums = sums + (tl.load(x + i),)
    for k in range(8):
        more = ()
        for i in tl.static_range(N):
            more = more + (sums[i] + k,)
        sums = more
    tl.store(x, sums[3])
    tl.store(x, tl.exq(sums[3]))  # error: unknown function 'tl.exq'


@triton.jit
def of_a_tool(x, n):
    y = load_ragged(x, 0, n, [0, 0])  # error: 'load_ragged' comes from 'triton.tools.ragged_tma.load_ragged', outside this file
    tl.store(x, y)


# check all
