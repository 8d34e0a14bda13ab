"""Block pointers: what loads, loops and branches make of them."""
import triton
import triton.language as tl


@triton.jit
def copy(out, x, n, m: tl.int64):
    p = tl.make_block_ptr(x, (n, m), (m, 1), (0, tl.program_id(0) * 32), (16, 32), (1, 0))
    q = tl.make_block_ptr(out, (m, n), (n, 1), (tl.program_id(0) * 32, 0), (32, 16), (1, 0))
    v = tl.load(p, boundary_check=(1,), padding_option="nan")
    tl.store(q, v.T.to(q.dtype.element_ty), boundary_check=(0, 1))


# check copy x=*f16 out=*f32 n=i32 m=i64


@triton.jit
def move(x, n):
    """A loop carries what changes: where the block begins."""
    p = tl.make_block_ptr(x, (n, 8), (8, 1), (0, 0), (4, 8), (1, 0))
    while tl.load(x) > n:
        tl.store(p, 0.0)
        p = tl.advance(p, (4, 0))


# check move x=*f32 n=i32


@triton.jit
def choose(x, y, n):
    """Two block pointers of one type: what differs is merged."""
    p = tl.make_block_ptr(x, (n,), (1,), (0,), (4,), (0,))
    if n > 100:
        p = tl.make_block_ptr(y, (n,), (2,), (0,), (4,), (0,))
    tl.store(p, 1.0, boundary_check=(0,))


# check choose x=*f32 y=*f32 n=i32
