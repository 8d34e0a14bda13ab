"""C = epilogue(A B + bias): the matrix product with what follows it applied to the accumulator, before the one store.

A is M x K, B is K x N, C is M x N, `bias` has N elements or is None. Element (i, j) of A lies i * stride_am + j *
stride_ak elements from its start; likewise for B and C, so that a transposed matrix needs no copy. The accumulator is
fp32, and so is the epilogue's arithmetic; the result is rounded once, to C's type.

EPILOGUE is a function of the accumulator's tile that gives one of its shape: one of those below, passed as Triton passes
it or by its name. `m_class` stands for M where tuning tells problems apart: M itself would have each number of tokens
tuned anew.
"""

import triton
import triton.language as tl

# ---- Epilogues.


@triton.jit
def none(acc):
    return acc


@triton.jit
def relu(acc):
    return tl.where(acc < 0, 0.0, acc)


@triton.jit
def leaky_relu(acc):
    return tl.where(acc < 0, 0.01 * acc, acc)


@triton.jit
def silu(acc):
    return acc * tl.sigmoid(acc)


@triton.jit
def gelu(acc):
    """x P(X < x) of a normal X, by the error function."""
    return 0.5 * acc * (1.0 + tl.erf(acc * 0.7071067811865476))


@triton.jit
def gelu_tanh(acc):
    """The approximation 0.5 x (1 + tanh(u)), u = sqrt(2 / pi) (x + 0.044715 x^3), which is x sigmoid(2 u)."""
    return acc * tl.sigmoid(acc * (1.5957691216057308 + 0.07135481627260025 * acc * acc))


@triton.jit
def gelu_tanh_fast(acc):
    """Likewise by the hardware's tanh, which is 5e-4 off at most: enough for results of 16 bits."""
    half = 0.5 * acc
    return half + half * tl.tanh(acc * (0.7978845608028654 + 0.035677408136300125 * acc * acc), approx=True)


# ---- Configurations.


def tile(m, n, k, warps, stages, group=8, programs=0):
    blocks = {"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k, "GROUP_M": group, "PROGRAMS": programs}
    return triton.Config(blocks, num_warps=warps, num_stages=stages)


def configs():
    found = []
    # Many rows. A stage of a K-step of 64 of 128 x 256 takes 48 KiB in 16-bit types: four on Hopper, three on an A100.
    for group in [8, 4, 16]:
        for programs in [1, 0]:
            found.append(tile(128, 256, 64, 8, 3, group, programs))
    found.append(tile(256, 128, 64, 8, 3, 8, 1))
    found.append(tile(128, 256, 32, 8, 6, 8, 1))
    found.append(tile(128, 128, 32, 4, 5, 8, 2))
    for m, n, k, warps, stages in [
        (128, 256, 64, 8, 4), (256, 128, 64, 8, 3), (256, 128, 64, 8, 4), (128, 128, 64, 4, 2), (128, 128, 64, 4, 3),
        (128, 128, 64, 4, 4), (128, 128, 64, 8, 3), (128, 128, 64, 8, 4), (128, 128, 32, 4, 4), (128, 256, 32, 8, 4), (256, 128, 32, 8, 4),
        (64, 256, 64, 4, 3), (64, 256, 64, 4, 4), (256, 64, 64, 4, 4), (128, 64, 64, 4, 4), (64, 128, 64, 4, 4),
        (64, 64, 64, 4, 4), (64, 64, 64, 4, 3), (64, 64, 128, 4, 3), (64, 32, 128, 4, 4), (64, 64, 32, 2, 4),
        (64, 32, 32, 2, 4), (128, 32, 32, 4, 4), (32, 32, 32, 1, 3)
    ]:
        found.append(tile(m, n, k, warps, stages))
    # Few rows, where B's way from memory is all that counts: many bytes under way in many programs.
    for m in [16, 32]:
        for n, k, warps, stages in [
            (16, 256, 4, 4), (32, 128, 4, 4), (32, 128, 4, 6), (32, 256, 4, 3), (32, 256, 4, 5), (32, 256, 8, 4),
            (64, 128, 4, 3), (64, 128, 4, 5), (64, 64, 4, 6), (128, 64, 4, 4), (128, 128, 4, 3), (16, 32, 1, 3)
        ]:
            found.append(tile(m, n, k, warps, stages))
    return found


def fitting(configs, named_args, **kwargs):
    """Tiles that are at most twice as large as the matrix; of few rows those that hold all of them, and of a large
    matrix those that read each operand least often."""
    M = named_args["M"]
    N = named_args["N"]
    K = named_args["K"]
    rows = max(16, triton.next_power_of_2(M))
    kept = []
    for config in configs:
        m = config.kwargs["BLOCK_M"]
        n = config.kwargs["BLOCK_N"]
        k = config.kwargs["BLOCK_K"]
        if n > max(16, triton.next_power_of_2(N)) or k > max(64, triton.next_power_of_2(K)):
            continue
        if rows <= 64:
            if m == rows:
                kept.append(config)
        elif M * N >= 4194304 and N >= 64:
            if m <= rows and m * n >= 8192:
                kept.append(config)
        elif m <= rows and (m >= 64 or m == n) and config.kwargs["PROGRAMS"] == 0:
            kept.append(config)
    if len(kept) == 0:
        kept = [tile(16, 16, 32, 1, 3)]
    return kept


def even(extent, block):
    return lambda args: args[extent] % args[block] == 0


# ---- The kernel.


@triton.jit
def place(program, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, GROUP_M: tl.constexpr):
    """The tile of that number, as row and column of tiles: GROUP_M rows of tiles are gone through column by column, so that
    programs that run at a time share rows of A and columns of B in the L2 cache."""
    tiles_m = tl.cdiv(M, BLOCK_M)
    group = GROUP_M * tl.cdiv(N, BLOCK_N)
    first = program // group * GROUP_M
    height = min(tiles_m - first, GROUP_M)
    return first + program % group % height, program % group // height


@triton.jit
def inside(at, extent, EVEN: tl.constexpr):
    """Whether elements are of the matrix; EVEN: all are."""
    if EVEN:
        return tl.full(at.shape, True, tl.int1)
    else:
        return at < extent


@triton.jit
def product(program, c_ptr, a_ptr, b_ptr, bias_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
            EPILOGUE: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
            GROUP_M: tl.constexpr, EVEN_M: tl.constexpr, EVEN_N: tl.constexpr, EVEN_K: tl.constexpr):
    """One tile of C."""
    tile_m, tile_n = place(program, M, N, BLOCK_M, BLOCK_N, GROUP_M)
    # The tile's corner may lie beyond 2^31 elements; within the tile 32 bits do.
    first_row = (tile_m * BLOCK_M).to(tl.int64)
    first_col = (tile_n * BLOCK_N).to(tl.int64)
    row = tl.arange(0, BLOCK_M)
    col = tl.arange(0, BLOCK_N)
    depth = tl.arange(0, BLOCK_K)
    row_mask = inside(tile_m * BLOCK_M + row, M, EVEN_M)
    col_mask = inside(tile_n * BLOCK_N + col, N, EVEN_N)

    a_ptrs = a_ptr + first_row * stride_am + row[:, None] * stride_am + depth[None, :] * stride_ak
    b_ptrs = b_ptr + first_col * stride_bn + depth[:, None] * stride_bk + col[None, :] * stride_bn
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BLOCK_K)):
        depth_mask = inside(depth, K - k * BLOCK_K, EVEN_K)
        a = tl.load(a_ptrs, mask=row_mask[:, None] & depth_mask[None, :], other=0.0)
        b = tl.load(b_ptrs, mask=depth_mask[:, None] & col_mask[None, :], other=0.0)
        acc = tl.dot(a, b, acc)
        a_ptrs += BLOCK_K * stride_ak
        b_ptrs += BLOCK_K * stride_bk

    if bias_ptr is not None:
        acc += tl.load(bias_ptr + first_col + col, mask=col_mask, other=0.0).to(tl.float32)[None, :]
    result = EPILOGUE(acc)
    tl.static_assert(result.shape == acc.shape,
                     f"EPILOGUE {EPILOGUE} gives a tile of shape {result.shape}, expected acc's: {acc.shape}")
    c_ptrs = c_ptr + first_row * stride_cm + first_col * stride_cn + row[:, None] * stride_cm + col[None, :] * stride_cn
    tl.store(c_ptrs, result.to(c_ptr.dtype.element_ty), mask=row_mask[:, None] & col_mask[None, :])


@triton.autotune(configs=configs(), key=["m_class", "N", "K"], prune_configs_by={"early_config_prune": fitting})
@triton.heuristics({
    "EVEN_M": even("M", "BLOCK_M"),
    "EVEN_N": even("N", "BLOCK_N"),
    "EVEN_K": even("K", "BLOCK_K"),
})
@triton.jit
def gemm(c_ptr, a_ptr, b_ptr, bias_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn, m_class,
         EPILOGUE: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
         GROUP_M: tl.constexpr, PROGRAMS: tl.constexpr, EVEN_M: tl.constexpr, EVEN_N: tl.constexpr, EVEN_K: tl.constexpr):
    """A program a tile of C if PROGRAMS is 0; otherwise PROGRAMS programs for each multiprocessor, and each goes on from
    tile to tile: the next one's operands are on their way while the epilogue of the one before runs."""
    if PROGRAMS == 0:
        product(tl.program_id(0), c_ptr, a_ptr, b_ptr, bias_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
                EPILOGUE, BLOCK_M, BLOCK_N, BLOCK_K, GROUP_M, EVEN_M, EVEN_N, EVEN_K)
    else:
        for program in tl.range(tl.program_id(0), tl.cdiv(M, BLOCK_M) * tl.cdiv(N, BLOCK_N), tl.num_programs(0)):
            product(program, c_ptr, a_ptr, b_ptr, bias_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
                    EPILOGUE, BLOCK_M, BLOCK_N, BLOCK_K, GROUP_M, EVEN_M, EVEN_N, EVEN_K)
