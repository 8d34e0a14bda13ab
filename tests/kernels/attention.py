"""Attention forward as users write it: pointers, block pointers, descriptors; causal, windows, groups of heads, lengths."""

import triton
import triton.language as tl


@triton.jit
def attend(
    acc, total, highest, q, k_ptr, v_ptr, first, last, rows, end, stride, scale,
    FORM: tl.constexpr, MASK: tl.constexpr, WINDOW: tl.constexpr, COLS: tl.constexpr, D: tl.constexpr, DV: tl.constexpr,
):
    """Goes on with the keys first to last; MASK: which of them a row sees has to be asked for."""
    columns, depth, depth_v = tl.arange(0, COLS), tl.arange(0, D), tl.arange(0, DV)
    if FORM == "block":
        k_block = tl.make_block_ptr(k_ptr, (D, end), (1, stride), (0, first), (D, COLS), (0, 1))
        v_block = tl.make_block_ptr(v_ptr, (end, DV), (stride, 1), (first, 0), (COLS, DV), (1, 0))
    if FORM == "descriptor":
        k_desc = tl.make_tensor_descriptor(k_ptr, [end, D], [stride, 1], [COLS, D])
        v_desc = tl.make_tensor_descriptor(v_ptr, [end, DV], [stride, 1], [COLS, DV])
    for start in range(first, last, COLS):
        at = start + columns
        if FORM == "block":
            k = tl.load(k_block, boundary_check=(1,), padding_option="zero")
        elif FORM == "descriptor":
            k = k_desc.load([start, 0]).T
        elif FORM == "masked":
            k = tl.load(k_ptr + at[None, :] * stride + depth[:, None], mask=at[None, :] < end, other=0.0)
        else:
            k = tl.load(k_ptr + at[None, :] * stride + depth[:, None])
        scores = tl.dot(q, k) * scale
        if MASK != "none":
            seen = at[None, :] < end
            if MASK != "end":
                seen = seen & (at[None, :] <= rows[:, None])
            if MASK == "window":
                seen = seen & (at[None, :] > rows[:, None] - WINDOW)
            scores = tl.where(seen, scores, -1.0e6)
        higher = tl.maximum(highest, tl.max(scores, 1))
        weights = tl.math.exp2(scores - higher[:, None])
        faded = tl.math.exp2(highest - higher)
        total = total * faded + tl.sum(weights, 1)
        acc = acc * faded[:, None]
        if FORM == "block":
            v = tl.load(v_block, boundary_check=(0,), padding_option="zero")
            k_block = tl.advance(k_block, (0, COLS))
            v_block = tl.advance(v_block, (COLS, 0))
        elif FORM == "descriptor":
            v = v_desc.load([start, 0])
        elif FORM == "masked":
            v = tl.load(v_ptr + at[:, None] * stride + depth_v[None, :], mask=at[:, None] < end, other=0.0)
        else:
            v = tl.load(v_ptr + at[:, None] * stride + depth_v[None, :])
        acc = tl.dot(weights.to(v.dtype), v, acc)
        highest = higher
    return acc, total, highest


@triton.jit
def forward(
    q_ptr, k_ptr, v_ptr, out_ptr, scale, length, stride, stride_head, GROUP: tl.constexpr, FORM: tl.constexpr,
    MASK: tl.constexpr, WINDOW: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr, D: tl.constexpr, DV: tl.constexpr,
):
    """All heads have `length` rows of queries and keys, `stride` elements apart; GROUP heads of queries share one of keys.
    MASK: "none", "causal", or "window": causal, and the last WINDOW keys alone."""
    start, head = tl.program_id(0) * ROWS, tl.program_id(1).to(tl.int64)
    rows, depth, depth_v = start + tl.arange(0, ROWS), tl.arange(0, D), tl.arange(0, DV)
    k_ptr += head // GROUP * stride_head
    v_ptr += head // GROUP * stride_head
    inside = rows[:, None] < length
    q = tl.load(q_ptr + head * stride_head + rows[:, None] * stride + depth[None, :], mask=inside, other=0.0)
    highest = tl.full((ROWS,), float("-inf"), tl.float32)
    total = tl.zeros((ROWS,), tl.float32)
    acc = tl.zeros((ROWS, DV), tl.float32)
    scale *= 1.44269504
    first = 0
    if MASK == "window":
        first = tl.maximum(start - WINDOW, 0) // COLS * COLS
        within = tl.minimum(tl.maximum(start + ROWS - WINDOW, 0) // COLS * COLS + COLS, start)
        acc, total, highest = attend(acc, total, highest, q, k_ptr, v_ptr, first, within, rows, length, stride, scale,
                                     FORM, "window", WINDOW, COLS, D, DV)
        first = within
    seen_by_all = length // COLS * COLS if MASK == "none" else start
    acc, total, highest = attend(acc, total, highest, q, k_ptr, v_ptr, first, seen_by_all, rows, length, stride, scale,
                                 FORM, "none", WINDOW, COLS, D, DV)
    acc, total, highest = attend(acc, total, highest, q, k_ptr, v_ptr, seen_by_all,
                                 length if MASK == "none" else tl.minimum(start + ROWS, length), rows, length, stride, scale,
                                 FORM if FORM != "pointer" else "masked", "end" if MASK == "none" else MASK, WINDOW, COLS, D, DV)
    out = (acc / total[:, None]).to(out_ptr.dtype.element_ty)
    tl.store(out_ptr + (head * length + rows[:, None]) * DV + depth_v[None, :], out, mask=inside)


@triton.jit
def forward_of_lengths(
    q_ptr, k_ptr, v_ptr, out_ptr, begins_ptr, scale, stride, heads, CAUSAL: tl.constexpr,
    FORM: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr, D: tl.constexpr,
):
    """Sequences one behind the other, number i from row begins[i] to begins[i + 1]; each row has `heads` heads."""
    sequence, head = tl.program_id(1) // heads, tl.program_id(1) % heads
    begin = tl.load(begins_ptr + sequence)
    length = tl.load(begins_ptr + sequence + 1) - begin
    start = tl.program_id(0) * ROWS
    if start >= length:
        return
    rows, depth = start + tl.arange(0, ROWS), tl.arange(0, D)
    base = begin.to(tl.int64) * stride + head * D
    at = base + rows[:, None] * stride + depth[None, :]
    q = tl.load(q_ptr + at, mask=rows[:, None] < length, other=0.0)
    highest = tl.full((ROWS,), float("-inf"), tl.float32)
    total = tl.zeros((ROWS,), tl.float32)
    acc = tl.zeros((ROWS, D), tl.float32)
    last = tl.minimum(start + ROWS, length) if CAUSAL else length
    acc, total, highest = attend(acc, total, highest, q, k_ptr + base, v_ptr + base, 0, last, rows, length, stride,
                                 scale * 1.44269504, FORM, "causal" if CAUSAL else "end", 0, COLS, D, D)
    tl.store(out_ptr + at, (acc / total[:, None]).to(out_ptr.dtype.element_ty), mask=rows[:, None] < length)


@triton.jit
def forward_persistent(
    q_ptr, k_ptr, v_ptr, out_ptr, scale, length, heads, CAUSAL: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr,
    D: tl.constexpr,
):
    """Each program takes tile after tile, the longest ones first; rows D elements apart, length a multiple of ROWS."""
    tiles = length // ROWS
    for tile in range(tl.program_id(0), tiles * heads, tl.num_programs(0)):
        start, base = (tiles - 1 - tile // heads) * ROWS, (tile % heads).to(tl.int64) * length * D
        rows, depth = start + tl.arange(0, ROWS), tl.arange(0, D)
        q = tl.load(q_ptr + base + rows[:, None] * D + depth[None, :])
        highest = tl.full((ROWS,), float("-inf"), tl.float32)
        total = tl.zeros((ROWS,), tl.float32)
        acc = tl.zeros((ROWS, D), tl.float32)
        seen_by_all = start if CAUSAL else length
        acc, total, highest = attend(acc, total, highest, q, k_ptr + base, v_ptr + base, 0, seen_by_all, rows, length, D,
                                     scale * 1.44269504, "pointer", "none", 0, COLS, D, D)
        if CAUSAL:
            acc, total, highest = attend(acc, total, highest, q, k_ptr + base, v_ptr + base, start, start + ROWS, rows,
                                         length, D, scale * 1.44269504, "pointer", "causal", 0, COLS, D, D)
        tl.store(out_ptr + base + rows[:, None] * D + depth[None, :], (acc / total[:, None]).to(out_ptr.dtype.element_ty))
