"""Rotary embedding of queries or keys: pairs of elements of each head are turned by the angles of the token's position.

    (a, b) -> (a cos - b sin, b cos + a sin), with BACKWARD by the opposite angles

The pairs are the elements i and half + i of a head, or with INTERLEAVED 2 i and 2 i + 1, for i below `half`; elements
behind the first 2 half of a head stay as they are. Token t has position[t], or t if no positions are given. `out` may be
x itself. A position beyond the tables gives NaN. Su et al.: RoFormer, 2021.
"""

import triton
import triton.language as tl


def configs():
    found = []
    for tokens, heads, warps in [(1, 8, 4), (1, 4, 4), (1, 16, 4), (2, 4, 4), (1, 32, 8), (1, 2, 2), (1, 1, 1), (4, 1, 4), (2, 1, 1),
                                 (4, 1, 1), (8, 1, 2), (16, 1, 4), (32, 1, 4), (2, 2, 1), (4, 2, 2), (8, 2, 4), (4, 4, 4), (2, 8, 4)]:
        found.append(triton.Config({"TOKENS": tokens, "HEADS": heads}, num_warps=warps))
    return found


def fitting(configs, named_args, **kwargs):
    """A thread has a pair to 16; one warp with less."""
    kept = []
    for config in configs:
        pairs = config.kwargs["TOKENS"] * config.kwargs["HEADS"] * triton.next_power_of_2(named_args["half"])
        fits = config.kwargs["HEADS"] <= named_args["heads"] and config.kwargs["TOKENS"] <= max(named_args["tokens"], 1)
        if fits and pairs <= 512 * config.num_warps and (pairs >= 32 * config.num_warps or config.num_warps == 1):
            kept.append(config)
    return kept if len(kept) > 0 else [c for c in configs if c.kwargs["TOKENS"] * c.kwargs["HEADS"] == 1]


@triton.autotune(configs=configs(), key=["tokens_class", "heads", "half", "size"], prune_configs_by={"early_config_prune": fitting})
@triton.heuristics({"HALF": lambda args: triton.next_power_of_2(args["half"]),
                    "REST": lambda args: triton.next_power_of_2(args["size"] - 2 * args["half"]) if args["size"] > 2 * args["half"] else 0,
                    "WARPS": lambda args: args["num_warps"]})
@triton.jit
def rope(out_ptr, x_ptr, cos_ptr, sin_ptr, position_ptr, out_stride, out_stride_1, out_stride_2, x_stride, x_stride_1,
         x_stride_2, cos_stride, sin_stride, tokens, heads, size, half, positions, tokens_class, INTERLEAVED: tl.constexpr,
         BACKWARD: tl.constexpr, TOKENS: tl.constexpr, HEADS: tl.constexpr, HALF: tl.constexpr, REST: tl.constexpr, WARPS: tl.constexpr = 1):
    token = (tl.program_id(0) * TOKENS + tl.arange(0, TOKENS))[:, None, None]
    i = tl.arange(0, HALF)[None, None, :]
    position = token
    if position_ptr is not None:
        position = tl.load(position_ptr + token, mask=token < tokens, other=0)
    position = position.to(tl.int64)
    angle = (token < tokens) & (i < half) & (position >= 0) & (position < positions)
    cos = tl.load(cos_ptr + position * cos_stride + i, mask=angle, other=float("nan")).to(tl.float32)
    sin = tl.load(sin_ptr + position * sin_stride + i, mask=angle, other=float("nan")).to(tl.float32)
    if BACKWARD:
        sin = -sin
    if INTERLEAVED:
        first = 2 * i
        second = 2 * i + 1
    else:
        first = i
        second = half + i
    x_token = x_ptr + token.to(tl.int64) * x_stride
    out_token = out_ptr + token.to(tl.int64) * out_stride
    for start in range(0, heads, HEADS):
        head = start + tl.arange(0, HEADS)[None, :, None]
        mask = (token < tokens) & (head < heads) & (i < half)
        x_head = x_token + head.to(tl.int64) * x_stride_1
        out_head = out_token + head.to(tl.int64) * out_stride_1
        a = tl.load(x_head + first * x_stride_2, mask=mask, other=0.0).to(tl.float32)
        b = tl.load(x_head + second * x_stride_2, mask=mask, other=0.0).to(tl.float32)
        if TOKENS * HEADS * HALF < 32 * WARPS:
            # Several threads load an element, one of which stores, and that may be to where it was loaded from.
            tl.debug_barrier()
        tl.store(out_head + first * out_stride_2, (a * cos - b * sin).to(out_ptr.dtype.element_ty), mask=mask)
        tl.store(out_head + second * out_stride_2, (b * cos + a * sin).to(out_ptr.dtype.element_ty), mask=mask)
        if REST > 0:
            rest = 2 * half + tl.arange(0, REST)[None, None, :]
            others = (token < tokens) & (head < heads) & (rest < size)
            tl.store(out_head + rest * out_stride_2, tl.load(x_head + rest * x_stride_2, mask=others), mask=others)
