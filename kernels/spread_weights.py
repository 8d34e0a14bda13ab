"""Weights of 8 or 4 bits as a matrix of A's type, for products of so many rows that they gain by it.

W is as in quantised_gemm.py. Of groups, out[n, k] is (w - zeros[n, g]) * scales[n, g], as weights of 16 bits would be; for GROUP = 0 it is
w - zeros[n], exact in float16 and, up to 256, in bfloat16, and the scales are the product's.
"""

import triton
import triton.language as tl

from quantised_weights import column_ptrs, has_fractions, load_numbers, load_weights, scaled_weights


def configs():
    return [triton.Config({"ROWS": rows, "COLS": cols}, num_warps=warps)
            for rows, cols, warps in [(4, 512, 4), (8, 512, 4), (8, 256, 4), (2, 1024, 4), (1, 2048, 4), (4, 1024, 4), (16, 128, 4), (16, 512, 8)]]


def fitting(configs, named_args, **kwargs):
    kept = [c for c in configs if c.kwargs["COLS"] < 2 * named_args["K"]]
    return kept if len(kept) > 0 else configs[-2:-1]


@triton.autotune(configs=configs(), key=["K"], prune_configs_by={"early_config_prune": fitting})
@triton.jit
def spread_weights(out_ptr, b_ptr, scales_ptr, zeros_ptr, N, K, out_stride, b_stride, scales_stride, zeros_stride, PACKED: tl.constexpr,
                   GROUP: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr):
    TYPE: tl.constexpr = out_ptr.dtype.element_ty
    pieces = tl.cdiv(K, COLS)
    row = tl.program_id(0) // pieces * ROWS + tl.arange(0, ROWS)
    first = tl.program_id(0) % pieces * COLS
    mask = (row < N)[:, None]
    b_row = b_ptr + row.to(tl.int64)[:, None] * b_stride
    zeros_row = zeros_ptr
    if zeros_ptr is not None:
        zeros_row = column_ptrs(zeros_ptr, row, 0, zeros_stride)[:, None]
    if GROUP > 0:
        scales_row = column_ptrs(scales_ptr, row, 0, scales_stride)[:, None]
        w = scaled_weights(b_row, scales_row, zeros_row, first, K - first, mask, PACKED, TYPE, GROUP, COLS, False)
    else:
        zero = tl.zeros([ROWS, 1], tl.float32)
        if zeros_ptr is not None:
            zero = load_numbers(zeros_row, mask).to(tl.float32)
        w = load_weights(b_row, first, K, mask, zero, PACKED, TYPE, COLS, False, has_fractions(zeros_ptr), False, zeros_ptr is not None)
    col = first + tl.arange(0, COLS)[None, :]
    tl.store(out_ptr + row.to(tl.int64)[:, None] * out_stride + col, w, mask=mask & (col < K))
