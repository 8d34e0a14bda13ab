"""SwiGLU on two tensors of `count` elements: silu(gate) * up, in fp32 whatever the element types."""

import triton
import triton.language as tl


@triton.autotune(configs=[triton.Config({"BLOCK": 256 * w * n}, num_warps=w) for w in (1, 2, 4, 8, 16) for n in (1, 2, 4)],
                 key=["count"])
@triton.jit
def swiglu(out_ptr, gate_ptr, up_ptr, count, BLOCK: tl.constexpr):
    """One program a piece of BLOCK elements."""
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = i < count
    gate = tl.load(gate_ptr + i, mask=mask, other=0.0).to(tl.float32)
    up = tl.load(up_ptr + i, mask=mask, other=0.0).to(tl.float32)
    tl.store(out_ptr + i, (gate * tl.sigmoid(gate) * up).to(out_ptr.dtype.element_ty), mask=mask)
