"""Gradients of RMSNorm and LayerNorm along the rows of a matrix, those of weight and bias in the same launch.

With n = (h - mean(h)) * r, r = 1 / sqrt(variance(h) + eps) (RMSNorm: mean 0, the mean square), and g = dy * weight:

    dx = r * (g - mean(g) - n * mean(g * n))        (RMSNorm: without mean(g)), plus dsum, what came by the residual
    dweight = sum over rows of dy * n,  dbias = sum over rows of dy

Mean and r are computed again from h, which is read anyway. A program takes every num_programs(0)-th tile of ROWS rows,
the loads of the next STAGES - 1 ahead, and keeps sums of dweight and dbias for its rows in registers; it leaves them as a
row of partials. Programs that have seen all programs start then wait until all are done; whoever is there adds up
columns of the partials, COLS at a time, taken by a counter, in the order of the programs: results are the same in every
run. Nobody waits for a program that has not begun: what others left undone the last one does.

counters: four int32 that are zero before and after each launch: programs that started, that left their sums, groups of
columns taken, programs that are through.
"""

import triton
import triton.language as tl

from tiles import extent, inside, load_vector


def configs():
    found = []
    for programs, warps, limit in [(1, 8, None), (2, 8, 128), (1, 16, 128), (2, 4, None), (4, 4, 128), (4, 8, 64),
                                   (2, 16, 64), (1, 32, 64), (1, 4, None), (2, 32, 32), (3, 4, None), (3, 8, 80)]:
        for rows in [1, 2, 4, 8, 16, 32]:
            for stages in [2, 1, 3]:
                how = {"PROGRAMS": programs, "ROWS": rows, "STAGES": stages}
                found.append(triton.Config(how, num_warps=warps, maxnreg=limit))
    return found


def fitting(configs, named_args, **kwargs):
    """Where a thread has 4 to 32 elements of a tile, and registers for its rows, weights, sums and what comes next."""
    cols = named_args["cols"]
    size = named_args["x_ptr"].element_size()
    sums = 1
    if named_args["dbias_ptr"] is not None:
        sums = 2
    kept = []
    for config in configs:
        rows = config.kwargs["ROWS"]
        threads = 32 * config.num_warps
        block = extent(cols, size, config.num_warps, rows)
        each = rows * block / threads
        registers = 65536 // (threads * config.kwargs["PROGRAMS"])
        ahead = config.kwargs["STAGES"] - 1
        needed = each * (sums + 2.5 + size / 4 * (1 + 2 * ahead)) + 24
        if 4 <= each <= 40 and needed <= min(registers, 255) and (rows == 1 or rows * block <= 8192):
            kept.append(config)
    if len(kept) == 0:
        narrow = [c for c in configs if c.kwargs["ROWS"] == 1 and c.kwargs["STAGES"] == 1]
        if cols <= 64:
            return [c for c in narrow if c.num_warps == 4][:1]
        return [c for c in narrow if c.num_warps == 32][:1]
    return kept


@triton.jit
def add_up(partials_ptr, out_ptr, sums, cols, group, COLS: tl.constexpr):
    """COLS columns of the partials' rows, added in order."""
    DEEP: tl.constexpr = 4096 // COLS
    col = group * COLS + tl.arange(0, COLS)[None, :]
    total = tl.zeros([DEEP, COLS], tl.float32)
    for first in range(0, sums, DEEP):
        row = first + tl.arange(0, DEEP)[:, None]
        mask = (row < sums) & (col < cols)
        total += tl.load(partials_ptr + row.to(tl.int64) * cols + col, mask=mask, other=0.0, cache_modifier=".cg")
    result = tl.sum(total, axis=0)[None, :]
    tl.store(out_ptr + col, result.to(out_ptr.dtype.element_ty), mask=col < cols)


@triton.jit
def finish_columns(dweight_ptr, dbias_ptr, partials_ptr, counters_ptr, cols, COLS: tl.constexpr):
    """What follows when a program has left its sums."""
    programs = tl.num_programs(0)
    tl.debug_barrier()
    done = tl.atomic_add(counters_ptr + 1, 1) + 1
    if tl.atomic_add(counters_ptr, 0) == programs:
        while done < programs:
            done = tl.atomic_add(counters_ptr + 1, 0)
    if done == programs:
        groups = tl.cdiv(cols, COLS)
        group = tl.atomic_add(counters_ptr + 2, 1)
        while group < groups:
            if dweight_ptr is not None:
                add_up(partials_ptr, dweight_ptr, programs, cols, group, COLS)
            if dbias_ptr is not None:
                add_up(partials_ptr + programs.to(tl.int64) * cols, dbias_ptr, programs, cols, group, COLS)
            group = tl.atomic_add(counters_ptr + 2, 1)
    if tl.atomic_add(counters_ptr + 3, 1) == programs - 1:
        for i in tl.static_range(4):
            tl.store(counters_ptr + i, 0)


@triton.autotune(configs=configs(), key=["cols", "rows_class"], prune_configs_by={"early_config_prune": fitting})
@triton.heuristics({
    "BLOCK": lambda args: extent(args["cols"], args["x_ptr"].element_size(), args["num_warps"], args["ROWS"]),
    "EVEN": lambda args: args["BLOCK"] == args["cols"] and args["rows"] % args["ROWS"] == 0,
})
@triton.jit
def norm_backward(dx_ptr, dweight_ptr, dbias_ptr, dy_ptr, x_ptr, weight_ptr, dsum_ptr, dx_stride, dy_stride, x_stride,
                  dsum_stride, rows, cols, eps, rows_class, partials_ptr, counters_ptr, CENTER: tl.constexpr,
                  BLOCK: tl.constexpr, ROWS: tl.constexpr, STAGES: tl.constexpr, PROGRAMS: tl.constexpr,
                  EVEN: tl.constexpr, COLS: tl.constexpr = 32):
    col = tl.arange(0, BLOCK)[None, :]
    weight = load_vector(weight_ptr, col, inside(col, cols, EVEN))
    SUMS: tl.constexpr = dweight_ptr is not None or dbias_ptr is not None
    if SUMS:
        tl.atomic_add(counters_ptr, 1, sem="relaxed")
    dweight = tl.zeros([ROWS, BLOCK], tl.float32)
    dbias = tl.zeros([ROWS, BLOCK], tl.float32)
    for tile in tl.range(tl.program_id(0), tl.cdiv(rows, ROWS), tl.num_programs(0), num_stages=STAGES):
        row = (tile * ROWS + tl.arange(0, ROWS))[:, None]
        if EVEN:
            mask = tl.full([ROWS, BLOCK], True, tl.int1)
        else:
            mask = (row < rows) & (col < cols)
        row = row.to(tl.int64)
        x = tl.load(x_ptr + row * x_stride + col, mask=mask, other=0.0).to(tl.float32)
        dy = tl.load(dy_ptr + row * dy_stride + col, mask=mask, other=0.0).to(tl.float32)
        g = dy
        if weight_ptr is not None:
            g = dy * weight.to(tl.float32)
        if CENTER:
            x = tl.where(mask, x - (tl.sum(x, axis=1) / cols)[:, None], 0.0)
        r = tl.rsqrt(tl.sum(x * x, axis=1) / cols + eps)[:, None]
        along = (tl.sum(g * x, axis=1) / cols)[:, None] * r
        n = x * r
        dx = g - n * along
        if CENTER:
            dx = dx - (tl.sum(g, axis=1) / cols)[:, None]
        dx = dx * r
        if dsum_ptr is not None:
            dx += tl.load(dsum_ptr + row * dsum_stride + col, mask=mask, other=0.0).to(tl.float32)
        tl.store(dx_ptr + row * dx_stride + col, dx.to(dx_ptr.dtype.element_ty), mask=mask)
        if dweight_ptr is not None:
            dweight += dy * n
        if dbias_ptr is not None:
            dbias += dy
    if SUMS:
        place = tl.program_id(0).to(tl.int64) * cols + col
        if dweight_ptr is not None:
            tl.store(partials_ptr + place, tl.sum(dweight, axis=0)[None, :], mask=inside(col, cols, EVEN))
        if dbias_ptr is not None:
            bias_ptr = partials_ptr + tl.num_programs(0).to(tl.int64) * cols
            tl.store(bias_ptr + place, tl.sum(dbias, axis=0)[None, :], mask=inside(col, cols, EVEN))
        finish_columns(dweight_ptr, dbias_ptr, partials_ptr, counters_ptr, cols, COLS)
