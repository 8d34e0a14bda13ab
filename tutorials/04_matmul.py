"""Matrix products with and without what follows them, and the same steps as kernels of their own.

A is M x K, B is K x N, C is M x N; the rows of each lie `stride_...` elements apart. One program computes a tile of C of
BLOCK_M x BLOCK_N elements in K steps of BLOCK_K, in an fp32 accumulator.
"""

import triton
import triton.language as tl

# ---- What may follow the product: functions of a tile in fp32.


@triton.jit
def nothing(x):
    return x


@triton.jit
def leaky_relu(x):
    return tl.where(x < 0, 0.01 * x, x)


@triton.jit
def gelu(x):
    """0.5 x (1 + tanh(u)) with u = sqrt(2 / pi) (x + 0.044715 x^3), which is x sigmoid(2 u)."""
    return x * tl.sigmoid(x * (1.5957691216057308 + 0.07135481627260025 * x * x))


# ---- The product. Candidates for large matrices, then for smaller ones; those that are larger than C are left out.

CONFIGS = [
    triton.Config({"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k, "GROUP_M": group}, num_warps=warps, num_stages=stages)
    for m, n, k, group, warps, stages in [
        (128, 256, 64, 8, 8, 3), (128, 256, 64, 16, 8, 3), (128, 256, 64, 8, 8, 4), (256, 128, 64, 8, 8, 3),
        (128, 128, 64, 8, 8, 3), (128, 128, 64, 8, 4, 4), (128, 128, 32, 8, 4, 4), (64, 128, 64, 8, 4, 4),
        (128, 64, 64, 8, 4, 4), (64, 128, 128, 8, 4, 3), (64, 64, 64, 8, 4, 4), (32, 64, 32, 8, 2, 4), (16, 32, 64, 1, 2, 4)
    ]
]


def fitting(configs, named_args, **kwargs):
    M = named_args["M"]
    N = named_args["N"]
    kept = [c for c in configs if c.kwargs["BLOCK_M"] <= M and c.kwargs["BLOCK_N"] <= N]
    return kept if len(kept) > 0 else configs[-1:]


@triton.autotune(configs=CONFIGS, key=["M", "N", "K"], prune_configs_by={"early_config_prune": fitting})
@triton.jit
def matmul(c_ptr, a_ptr, b_ptr, bias_ptr, M, N, K, stride_a, stride_b, stride_c, EPILOGUE: tl.constexpr,
           BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr):
    """C = EPILOGUE(A B + bias); the bias may be None."""
    # Programs start in the order of their numbers. GROUP_M rows of tiles are gone through column by column: those that
    # run at a time then share rows of A and columns of B, which come from the L2 cache.
    program = tl.program_id(0)
    group = GROUP_M * tl.cdiv(N, BLOCK_N)
    first = program // group * GROUP_M
    height = min(tl.cdiv(M, BLOCK_M) - first, GROUP_M)
    tile_m = first + program % group % height
    tile_n = program % group // height

    rows = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    depth = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + rows[:, None] * stride_a + depth[None, :]
    b_ptrs = b_ptr + depth[:, None] * stride_b + cols[None, :]
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BLOCK_K)):
        left = K - k * BLOCK_K
        a = tl.load(a_ptrs, mask=(rows[:, None] < M) & (depth[None, :] < left), other=0.0)
        b = tl.load(b_ptrs, mask=(depth[:, None] < left) & (cols[None, :] < N), other=0.0)
        acc = tl.dot(a, b, acc)
        a_ptrs += BLOCK_K
        b_ptrs += BLOCK_K * stride_b

    # The accumulator is still in registers: here is the place for all that works on single elements of C.
    if bias_ptr is not None:
        acc += tl.load(bias_ptr + cols, mask=cols < N, other=0.0).to(tl.float32)[None, :]
    acc = EPILOGUE(acc)
    c_ptrs = c_ptr + rows[:, None] * stride_c + cols[None, :]
    tl.store(c_ptrs, acc.to(c_ptr.dtype.element_ty), mask=(rows[:, None] < M) & (cols[None, :] < N))


# ---- The steps behind the product as an array library has them: a kernel each, C read and written again. C is taken as
# one run of `count` elements.


@triton.jit
def add_bias(c_ptr, bias_ptr, count, N, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    c = tl.load(c_ptr + at, mask=at < count).to(tl.float32) + tl.load(bias_ptr + at % N, mask=at < count).to(tl.float32)
    tl.store(c_ptr + at, c.to(c_ptr.dtype.element_ty), mask=at < count)


@triton.jit
def apply(c_ptr, count, EPILOGUE: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    c = EPILOGUE(tl.load(c_ptr + at, mask=at < count).to(tl.float32))
    tl.store(c_ptr + at, c.to(c_ptr.dtype.element_ty), mask=at < count)
