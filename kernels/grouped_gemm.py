"""C = activation(A B[g]) * scale for groups g of rows, each with a matrix of its own, in one launch.

Rows ends[g - 1] to ends[g] are those of group g, which may have none; `rows` is no less than the last end. Row i of a group is row
gather[i] of A, and goes to row scatter[i] of C, times scale[i]; each of the three may be None: then it is row i, of both, and the
factor 1. So experts take the rows of their tokens where these are and put results where they belong. B[g] is K x N.

A program computes a tile of a group; there are as many as tiles at most: one for BLOCK_M rows and one more a group, for BLOCK_N columns
each. Those that no group has do nothing. Tiles with the same columns of one B follow one another, so that it is read from memory
once. SWAP has the transposed product computed, B^T A^T, whose instructions take any number of rows of A: for groups of few rows.
GROUPS is a power of two no less than the number of groups.
"""

import triton
import triton.language as tl

from gemm import even, load_step
from tiles import activate, inside


def tile(m, n, k, warps, stages, swap=False):
    return triton.Config({"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k, "SWAP": swap}, num_warps=warps, num_stages=stages)


def configs():
    found = [tile(128, 192, 64, 8, 4), tile(128, 256, 64, 8, 4), tile(128, 256, 64, 8, 3), tile(128, 128, 64, 8, 5), tile(128, 128, 64, 4, 3), tile(128, 128, 64, 4, 4),
             tile(64, 256, 64, 4, 4), tile(64, 128, 64, 4, 4), tile(64, 128, 64, 4, 6), tile(64, 64, 64, 4, 6), tile(64, 128, 128, 4, 4),
             tile(32, 32, 32, 1, 3)]
    for m in [16, 32, 48]:
        for n, k, stages in [(64, 64, 8), (64, 128, 6), (128, 64, 5), (128, 64, 7), (128, 128, 4)]:
            found.append(tile(m, n, k, 4, stages, True))
    for m in [80, 96]:
        found.append(tile(m, 128, 64, 4, 5, True))
    return found


def fitting(configs, named_args, **kwargs):
    """Tiles that hold about the mean of the groups' rows, which differ."""
    mean = triton.cdiv(named_args["rows"], named_args["groups"])
    kept = []
    for config in configs:
        m = config.kwargs["BLOCK_M"]
        if config.kwargs["BLOCK_N"] > max(32, triton.next_power_of_2(named_args["N"])):
            continue
        if m > max(16, 2 * triton.next_power_of_2(mean)):
            continue
        if (config.kwargs["SWAP"] and mean <= 96) or (m >= 64 and mean > 48 and not config.kwargs["SWAP"]):
            kept.append(config)
    if len(kept) == 0:
        kept = [tile(32, 32, 32, 1, 3)]
    return kept


@triton.jit
def find_tile(program, ends_ptr, groups, tiles_n, BLOCK_M: tl.constexpr, GROUPS: tl.constexpr):
    """Group, first row, row behind the group's last, and tile of columns of the program with that number. One that is not needed has
    no rows."""
    g = tl.arange(0, GROUPS)
    end = tl.load(ends_ptr + g, mask=g < groups, other=0)
    begin = tl.load(ends_ptr + g - 1, mask=(g > 0) & (g < groups), other=0)
    tiles = tl.cdiv(tl.maximum(end - begin, 0), BLOCK_M) * tiles_n
    behind = tl.cumsum(tiles, axis=0)
    before = behind <= program
    group = tl.sum(before.to(tl.int32), axis=0)
    # That none of these is negative lets boxes of A and B be copied by tensor maps.
    tile = tl.maximum(program - tl.sum(tl.where(before, tiles, 0), axis=0), 0)
    found = group < groups
    begin = tl.load(ends_ptr + group - 1, mask=found & (group > 0), other=0)
    end = tl.load(ends_ptr + group, mask=found, other=0)
    height = tl.maximum(tl.cdiv(end - begin, BLOCK_M), 1)
    group = tl.maximum(tl.minimum(group, groups - 1), 0)
    return group, tl.maximum(begin, 0) + tile % height * BLOCK_M, end, tile // height


@triton.autotune(configs=configs(), key=["rows", "groups", "N", "K"], prune_configs_by={"early_config_prune": fitting, "top_k": 10})
@triton.heuristics({
    "EVEN_N": even("N", "BLOCK_N"),
    "EVEN_K": even("K", "BLOCK_K"),
    "GROUPS": lambda args: triton.next_power_of_2(args["groups"]),
})
@triton.jit
def grouped_gemm(c_ptr, a_ptr, b_ptr, ends_ptr, gather_ptr, scatter_ptr, scale_ptr, rows, groups, N, K, stride_am, stride_be, stride_bk,
                 stride_bn, stride_cm, ACTIVATION: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
                 SWAP: tl.constexpr, EVEN_N: tl.constexpr, EVEN_K: tl.constexpr, GROUPS: tl.constexpr):
    tiles_n = tl.cdiv(N, BLOCK_N)
    group, first_row, end, tile_n = find_tile(tl.program_id(0), ends_ptr, groups, tiles_n, BLOCK_M, GROUPS)
    row = first_row + tl.arange(0, BLOCK_M)
    col = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    depth = tl.arange(0, BLOCK_K)
    row_mask = row < end
    col_mask = inside(col, N, EVEN_N)

    if gather_ptr is not None:
        source = tl.load(gather_ptr + row, mask=row_mask, other=0)
        a_mask = row_mask
    else:
        # Rows of the next group may be read, and are dropped: so it is one box of A.
        source = row
        a_mask = row < rows
    a_ptrs = a_ptr + source[:, None].to(tl.int64) * stride_am + depth[None, :]
    b_ptrs = b_ptr + group.to(tl.int64) * stride_be + depth[:, None] * stride_bk + col[None, :] * stride_bn
    acc = tl.zeros((BLOCK_N, BLOCK_M) if SWAP else (BLOCK_M, BLOCK_N), dtype=tl.float32)
    steps = tl.cdiv(K, BLOCK_K) if first_row < end else 0
    for k in range(0, steps):
        a, b = load_step(a_ptrs, b_ptrs, a_mask, col_mask, K - k * BLOCK_K, BLOCK_K, EVEN_K)
        if SWAP:
            acc = tl.dot(tl.trans(b), tl.trans(a), acc)
        else:
            acc = tl.dot(a, b, acc)
        a_ptrs += BLOCK_K
        b_ptrs += BLOCK_K * stride_bk
    if SWAP:
        acc = tl.trans(acc)
    result = activate(acc, ACTIVATION)
    if scale_ptr is not None:
        result *= tl.load(scale_ptr + row, mask=row_mask, other=0.0)[:, None]
    if scatter_ptr is not None:
        target = tl.load(scatter_ptr + row, mask=row_mask, other=0)
    else:
        target = row
    c_ptrs = c_ptr + target[:, None].to(tl.int64) * stride_cm + col[None, :]
    tl.store(c_ptrs, result.to(c_ptr.dtype.element_ty), mask=row_mask[:, None] & col_mask[None, :])
