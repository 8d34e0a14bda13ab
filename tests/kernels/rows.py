"""Kernels on the rows of a matrix."""

import triton
import triton.language as tl


@triton.jit
def softmax(out_ptr, x_ptr, x_stride, out_stride, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    mask = offsets < cols
    x = tl.load(x_ptr + row * x_stride + offsets, mask=mask, other=-float("inf"))
    numerator = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row * out_stride + offsets, numerator / tl.sum(numerator, axis=0), mask=mask)


@triton.jit
def softmax_rows(out_ptr, x_ptr, x_stride, out_stride, rows, cols, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """Several rows a program."""
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    c = tl.arange(0, BLOCK)
    mask = (r[:, None] < rows) & (c[None, :] < cols)
    x = tl.load(x_ptr + r[:, None] * x_stride + c[None, :], mask=mask, other=-float("inf"))
    numerator = tl.exp(x - tl.max(x, axis=1)[:, None])
    y = numerator / tl.sum(numerator, axis=1)[:, None]
    tl.store(out_ptr + r[:, None] * out_stride + c[None, :], y, mask=mask)


@triton.jit
def softmax_persistent(
    out_ptr, x_ptr, x_stride, out_stride, rows, cols, BLOCK: tl.constexpr, num_stages: tl.constexpr
):
    """A program works on every num_programs-th row and loads the next ones ahead."""
    offsets = tl.arange(0, BLOCK)
    mask = offsets < cols
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=num_stages):
        x = tl.load(x_ptr + row * x_stride + offsets, mask=mask, other=-float("inf"))
        numerator = tl.exp(x - tl.max(x, axis=0))
        tl.store(out_ptr + row * out_stride + offsets, numerator / tl.sum(numerator, axis=0), mask=mask)


@triton.jit
def rms_norm(x_ptr, w_ptr, out_ptr, stride, cols, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    mask = offsets < cols
    x = tl.load(x_ptr + row * stride + offsets, mask=mask, other=0.0).to(tl.float32)
    w = tl.load(w_ptr + offsets, mask=mask)
    scale = tl.rsqrt(tl.sum(x * x, axis=0) / cols + eps)
    tl.store(out_ptr + row * stride + offsets, (x * scale).to(w.dtype) * w, mask=mask)


@triton.jit
def add_rms_norm_silu(x_ptr, residual_ptr, w_ptr, out_ptr, stride, cols, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    mask = offsets < cols
    x = tl.load(x_ptr + row * stride + offsets, mask=mask, other=0.0).to(tl.float32)
    x += tl.load(residual_ptr + row * stride + offsets, mask=mask, other=0.0).to(tl.float32)
    tl.store(residual_ptr + row * stride + offsets, x, mask=mask)
    w = tl.load(w_ptr + offsets, mask=mask).to(tl.float32)
    y = x * tl.rsqrt(tl.sum(x * x, axis=0) / cols + eps) * w
    tl.store(out_ptr + row * stride + offsets, y * tl.sigmoid(y), mask=mask)


@triton.jit
def layer_norm(x_ptr, w_ptr, b_ptr, out_ptr, mean_ptr, rstd_ptr, stride, cols, eps, BLOCK: tl.constexpr):
    """Rows that are too long for one tile: three passes."""
    row = tl.program_id(0)
    x_ptr += row * stride
    out_ptr += row * stride
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, cols, BLOCK):
        offsets = start + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + offsets, mask=offsets < cols, other=0.0).to(tl.float32)
    mean = tl.sum(total, axis=0) / cols
    squares = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, cols, BLOCK):
        offsets = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + offsets, mask=offsets < cols, other=0.0).to(tl.float32)
        x = tl.where(offsets < cols, x - mean, 0.0)
        squares += x * x
    rstd = 1 / tl.sqrt(tl.sum(squares, axis=0) / cols + eps)
    tl.store(mean_ptr + row, mean)
    tl.store(rstd_ptr + row, rstd)
    for start in range(0, cols, BLOCK):
        offsets = start + tl.arange(0, BLOCK)
        mask = offsets < cols
        w = tl.load(w_ptr + offsets, mask=mask)
        b = tl.load(b_ptr + offsets, mask=mask)
        x = tl.load(x_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
        tl.store(out_ptr + offsets, (x - mean) * rstd * w + b, mask=mask)


@triton.jit
def cross_entropy(logits_ptr, target_ptr, loss_ptr, stride, cols, ignore, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    target = tl.load(target_ptr + row)
    logits_ptr += row * stride
    if target == ignore:
        tl.store(loss_ptr + row, 0.0)
        return
    largest = -float("inf")
    total = 0.0
    for start in range(0, cols, BLOCK):
        offsets = start + tl.arange(0, BLOCK)
        x = tl.load(logits_ptr + offsets, mask=offsets < cols, other=-float("inf")).to(tl.float32)
        new = tl.maximum(largest, tl.max(x, axis=0))
        total = total * tl.exp(largest - new) + tl.sum(tl.exp(x - new), axis=0)
        largest = new
    loss = largest + tl.log(total) - tl.load(logits_ptr + target).to(tl.float32)
    tl.store(loss_ptr + row, loss)


@triton.jit
def argmax(x_ptr, value_ptr, index_ptr, stride, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride + offsets, mask=offsets < cols, other=-float("inf"))
    value, index = tl.max(x, axis=0, return_indices=True)
    tl.store(value_ptr + row, value)
    tl.store(index_ptr + row, index)
