import triton
import triton.language as tl


@triton.jit
def vector_add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    # This program's elements: BLOCK of them, side by side.
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    # The last program may reach past the end: the mask keeps it inside.
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + y, mask=mask)
