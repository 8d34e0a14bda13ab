"""Kernels of these tests: a file that Tegula and Triton both take."""
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(out_ptr, x_ptr, stride, n, BLOCK_SIZE: tl.constexpr):
    row, offsets = tl.program_id(0), tl.arange(0, BLOCK_SIZE)
    x = tl.load(x_ptr + row * stride + offsets, mask=offsets < n, other=float("-inf")).to(tl.float32)
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row * stride + offsets, e / tl.sum(e, axis=0), mask=offsets < n)


@triton.jit
def copy_strided(out_ptr, x_ptr, rows, cols, x_row, x_col, BLOCK: tl.constexpr):
    """out[rows, cols], contiguous, from x with any strides; one program an element block of a row."""
    row, i = tl.program_id(0), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * x_row + i * x_col, mask=i < cols)
    tl.store(out_ptr + row * cols + i, x, mask=i < cols)


@triton.jit
def add(out_ptr, x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    """y_ptr may be None."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    if y_ptr is not None:
        x += tl.load(y_ptr + i, mask=i < n)
    tl.store(out_ptr + i, x, mask=i < n)


@triton.jit
def copy_blocks(out, x, row, column):
    """A block of x, a tensor descriptor as out is, to the beginning of out."""
    out.store([0, 0], x.load([row, column]))


@triton.jit
def scalars(out_ptr, a, b, flag, big):
    """out[4] in fp64."""
    tl.store(out_ptr, a)
    tl.store(out_ptr + 1, b)
    tl.store(out_ptr + 2, tl.where(flag, 1, 0))
    tl.store(out_ptr + 3, big)


@triton.jit
def convert(out_ptr, x_ptr, n, TYPE: tl.constexpr, MODE: tl.constexpr, FACTOR: tl.constexpr, BLOCK: tl.constexpr = 64):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n).to(TYPE)
    if MODE == "scale":
        x = x * FACTOR
    tl.store(out_ptr + i, x, mask=i < n)


@triton.autotune(configs=[triton.Config({"BLOCK": 32}, num_warps=1),
                          triton.Config({"BLOCK": 64}, num_warps=2)], key=["n"])
@triton.jit
def tuned_double(out_ptr, x_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, 2 * tl.load(x_ptr + i, mask=i < n), mask=i < n)
