"""A token for each row of logits, drawn from the softmax of x / temperature over its top-k and top-p tokens.

Of a row the k largest logits are kept (and those equal to the k-th), and of these the largest ones whose probabilities add up to p
or more (and those equal to the smallest). Both sets are all logits from a threshold on.

Where k is FEW at most and a program is one block, the k-th largest of the maxima of FEW parts of the row bounds the k-th largest logit from below. If no more than
FEW logits lie above it, as is the case unless many are equal or large ones stand side by side, they are sorted, and what is left to do
concerns them alone. Otherwise the bits of a threshold are found from the highest down, two in each pass over the row, by counts (k) and
sums of exp (p) of what lies above.

The token is the one with the largest x / temperature - log(-log(u)), u uniform in (0, 1) by Philox of seed and place: it is drawn
with its softmax's probability (Gumbel, 1954), and without running sums. A temperature of 0, or so small that fp32 has no x /
temperature (up to 1e-20), takes the largest logit, the first of several. A row without a finite largest logit has the token -1.

A program, or a cluster, takes every num_programs(0)-th row, in pieces of PIECE elements; a row of one piece stays in registers.
"""

import triton
import triton.language as tl


def configs():
    found = []
    for piece, warps, blocks in [(65536, 16, 8), (32768, 16, 4), (131072, 32, 8), (32768, 32, 2), (8192, 16, 1), (8192, 8, 1),
                                 (4096, 16, 1), (4096, 8, 1), (2048, 4, 1), (1024, 4, 1), (256, 1, 1), (64, 1, 1)]:
        found.append(triton.Config({"PIECE": piece}, num_warps=warps, num_ctas=blocks))
    return found


def fitting(configs, named_args, **kwargs):
    """Pieces that a row fills to more than a half; few of them."""
    cols = named_args["cols"]
    kept = []
    for config in configs:
        piece = config.kwargs["PIECE"]
        if piece < 2 * cols and cols <= 16 * max(piece, 8192):
            kept.append(config)
    return kept if len(kept) > 0 else configs[-1:]


@triton.jit
def key_of(x):
    """Integers in the order of numbers."""
    bits = x.to(tl.int32, bitcast=True)
    return bits ^ (bits >> 31 & 0x7FFFFFFF)


@triton.jit
def load_piece(x_row, start, cols, PIECE: tl.constexpr):
    """Logits in fp32; what is no column, or NaN, is -infinity."""
    col = start + tl.arange(0, PIECE)
    x = tl.load(x_row + col, mask=col < cols, other=float("-inf")).to(tl.float32)
    return tl.where(x == x, x, float("-inf"))


@triton.jit
def weight_of(x, top, inverse, COUNT: tl.constexpr):
    """What an element adds to the search's sums: 1, or its share of the softmax."""
    if COUNT:
        return tl.where(x > float("-inf"), 1.0, 0.0)
    else:
        return tl.exp((x - top) * inverse)


@triton.jit
def add3(a0, a1, a2, b0, b1, b2):
    return a0 + b0, a1 + b1, a2 + b2


@triton.jit
def by_four(x):
    """Sums of four neighbours, which one thread has: a quarter of the registers for what is added up over pieces."""
    return tl.sum(tl.reshape(x, [x.shape[0] // 4, 4]), axis=1)


@triton.jit
def add_above(s1, s2, s3, x, weight, floor, c1, c2, c3):
    """Adds to each of three sums the weights of elements from a key on that lie above the floor too."""
    key = key_of(x)
    weight = tl.where(key >= floor, weight, 0.0)
    s1 += by_four(tl.where(key >= c1, weight, 0.0))
    s2 += by_four(tl.where(key >= c2, weight, 0.0))
    s3 += by_four(tl.where(key >= c3, weight, 0.0))
    return s1, s2, s3


@triton.jit
def threshold(x_row, kept, kept_weight, cols, top, inverse, floor, wanted, COUNT: tl.constexpr, LOW: tl.constexpr, PIECE: tl.constexpr,
              WHOLE: tl.constexpr):
    """The largest key from which on elements, those above `floor`, weigh `wanted` or more. Its lowest LOW bits are 0."""
    found = tl.cast(-0x80000000, tl.int64)
    for turn in range(0, (32 - LOW) // 2):
        step = tl.cast(1, tl.int64) << (30 - 2 * turn)
        c1 = (found + step).to(tl.int32)
        c2 = (found + 2 * step).to(tl.int32)
        c3 = (found + 3 * step).to(tl.int32)
        s1 = tl.zeros([PIECE // 4], tl.float32)
        s2 = tl.zeros([PIECE // 4], tl.float32)
        s3 = tl.zeros([PIECE // 4], tl.float32)
        if WHOLE:
            s1, s2, s3 = add_above(s1, s2, s3, kept, kept_weight, floor, c1, c2, c3)
        else:
            for start in range(0, cols, PIECE):
                x = load_piece(x_row, start, cols, PIECE)
                s1, s2, s3 = add_above(s1, s2, s3, x, weight_of(x, top, inverse, COUNT), floor, c1, c2, c3)
        w1, w2, w3 = tl.reduce((s1, s2, s3), 0, add3)
        more = (w1 >= wanted).to(tl.int64) + (w2 >= wanted).to(tl.int64) + (w3 >= wanted).to(tl.int64)
        found += more * step
    return found.to(tl.int32)


@triton.jit
def row_value(ptr, row, otherwise):
    if ptr is not None:
        return tl.load(ptr + row)
    else:
        return otherwise


@triton.jit
def total_weight(x_row, kept, cols, top, inverse, floor, PIECE: tl.constexpr, WHOLE: tl.constexpr):
    """The sum of exp((x - top) / temperature) from the floor on."""
    total = tl.zeros([PIECE // 4], tl.float32)
    if WHOLE:
        total += by_four(tl.where(key_of(kept) >= floor, weight_of(kept, top, inverse, False), 0.0))
    else:
        for start in range(0, cols, PIECE):
            x = load_piece(x_row, start, cols, PIECE)
            total += by_four(tl.where(key_of(x) >= floor, weight_of(x, top, inverse, False), 0.0))
    return tl.sum(total, axis=0)


@triton.jit
def noise(seed, first, col):
    return -tl.log(-tl.log(tl.maximum(tl.rand(seed, first + col), 1e-12)))


@triton.jit
def better(x, best, place, start, floor, seed, first, inverse, PIECE: tl.constexpr):
    """Scores of a piece that exceed the best ones so far, element by element, and their places."""
    col = start + tl.arange(0, PIECE)
    score = tl.where(inverse > 0, x * inverse + noise(seed, first, col), x)
    score = tl.where((key_of(x) >= floor) & (x > float("-inf")), score, float("-inf"))
    return tl.maximum(best, score), tl.where(score > best, col, place)


@triton.jit
def drawn(best, place):
    """The place of the best score, the first of several."""
    return tl.min(tl.where(best == tl.max(best, axis=0), place, 0x7FFFFFFF), axis=0)


@triton.jit
def token_of_all(x_row, cols, top, inverse, k, p, seed, first, LOW: tl.constexpr, PIECE: tl.constexpr, WHOLE: tl.constexpr):
    """By thresholds that are found among all logits of the row."""
    kept = load_piece(x_row, 0, cols, PIECE)
    floor = tl.cast(-0x80000000, tl.int32)
    if (k > 0) & (k < cols):
        floor = threshold(x_row, kept, weight_of(kept, top, inverse, True), cols, top, inverse, floor, k.to(tl.float32), True, LOW, PIECE,
                          WHOLE)
    if (p < 1.0) & (inverse > 0.0):
        wanted = p * total_weight(x_row, kept, cols, top, inverse, floor, PIECE, WHOLE)
        found = threshold(x_row, kept, weight_of(kept, top, inverse, False), cols, top, inverse, floor, wanted, False, LOW, PIECE, WHOLE)
        floor = tl.maximum(floor, tl.minimum(found, key_of(top)))
    best = tl.full([PIECE], float("-inf"), tl.float32)
    place = tl.full([PIECE], 0x7FFFFFFF, tl.int32)
    if WHOLE:
        best, place = better(kept, best, place, 0, floor, seed, first, inverse, PIECE)
    else:
        for start in range(0, cols, PIECE):
            x = load_piece(x_row, start, cols, PIECE)
            best, place = better(x, best, place, start, floor, seed, first, inverse, PIECE)
    return drawn(best, place)


@triton.jit
def element(x, i):
    """Element i of a vector."""
    return tl.sum(tl.where(tl.arange(0, x.shape[0]) == i, x, 0.0), axis=0)


@triton.jit
def leave_few(few_ptr, places_ptr, x_row, maxima, cols, k, LENGTH: tl.constexpr, FEW: tl.constexpr):
    """Leaves the logits from the k-th largest of FEW parts' maxima on, in their order, and their columns, if they are FEW at most.
    Returns their number. `maxima`: the largest logit of the columns that are equal modulo LENGTH."""
    of_parts = tl.max(tl.reshape(maxima, [FEW, LENGTH // FEW]), axis=1)
    least = element(tl.sort(of_parts, descending=True), k - 1)
    counts = tl.zeros([LENGTH], tl.int32)
    for first in range(0, cols, LENGTH):
        x = load_piece(x_row, first, cols, LENGTH)
        counts += ((x >= least) & (x > float("-inf"))).to(tl.int32)
    count = tl.sum(counts, axis=0)
    if count <= FEW:
        ahead = 0
        tl.debug_barrier()  # all have read what the row before has left
        for first in range(0, cols, LENGTH):
            x = load_piece(x_row, first, cols, LENGTH)
            is_kept = (x >= least) & (x > float("-inf"))
            place = ahead + tl.cumsum(is_kept.to(tl.int32), axis=0) - 1
            tl.store(few_ptr + place, x, mask=is_kept)
            tl.store(places_ptr + place, first + tl.arange(0, LENGTH), mask=is_kept)
            ahead += tl.sum(is_kept.to(tl.int32), axis=0)
        tl.debug_barrier()
    return count


@triton.jit
def token_of_few(few_ptr, places_ptr, count, top, inverse, k, p, seed, first, FEW: tl.constexpr):
    """By sorting the logits that leave_few() has left."""
    at = tl.arange(0, FEW)
    x = tl.load(few_ptr + at, mask=at < count, other=float("-inf"), cache_modifier=".cg")
    col = tl.load(places_ptr + at, mask=at < count, other=0x7FFFFFFF, cache_modifier=".cg")
    pairs = tl.sort(key_of(x).to(tl.int64) << 32 | (0x7FFFFFFF - col).to(tl.int64), descending=True)
    key = (pairs >> 32).to(tl.int32)
    x = (key ^ (key >> 31 & 0x7FFFFFFF)).to(tl.float32, bitcast=True)
    col = 0x7FFFFFFF - (pairs & 0x7FFFFFFF).to(tl.int32)
    is_kept = (x >= element(x, k - 1)) & (x > float("-inf"))
    if (p < 1.0) & (inverse > 0.0):
        weight = tl.where(is_kept, tl.exp((x - top) * inverse), 0.0)
        ahead = tl.cumsum(weight, axis=0) - weight
        needed = is_kept & ((ahead < p * tl.sum(weight, axis=0)) | (at == 0))
        is_kept = is_kept & (x >= tl.min(tl.where(needed, x, float("inf")), axis=0))
    score = tl.where(inverse > 0, x * inverse + noise(seed, first, col), x)
    return drawn(tl.where(is_kept, score, float("-inf")), tl.where(is_kept, col, 0x7FFFFFFF))


@triton.autotune(configs=configs(), key=["cols", "rows_class"], prune_configs_by={"early_config_prune": fitting})
@triton.heuristics({
    "WHOLE": lambda args: args["cols"] <= args["PIECE"],
    "LENGTH": lambda args: args["PIECE"] if args["num_ctas"] > 1 else min(args["PIECE"], 256 * args["num_warps"]),
    "FEW": lambda args: 0 if args["num_ctas"] > 1 else min(1024, args["PIECE"], 256 * args["num_warps"]),
})
@triton.jit
def sample_rows(out_ptr, x_ptr, temperature_ptr, top_k_ptr, top_p_ptr, x_stride, rows, cols, seed, rows_class, partials_ptr,
                PIECE: tl.constexpr, WHOLE: tl.constexpr, LENGTH: tl.constexpr, FEW: tl.constexpr):
    LOW: tl.constexpr = 16 if x_ptr.dtype.element_ty == tl.bfloat16 else 12 if x_ptr.dtype.element_ty == tl.float16 else 0
    few_ptr = partials_ptr + tl.program_id(0).to(tl.int64) * (2 * FEW)
    places_ptr = (few_ptr + FEW).to(tl.pointer_type(tl.int32))
    for row in range(tl.program_id(0), rows, tl.num_programs(0)):
        x_row = x_ptr + row.to(tl.int64) * x_stride
        temperature = row_value(temperature_ptr, row, 1.0)
        inverse = tl.where(temperature > 1e-20, 1.0 / temperature, 0.0)
        k = row_value(top_k_ptr, row, 0)
        p = row_value(top_p_ptr, row, 1.0)
        maxima = tl.full([LENGTH], float("-inf"), tl.float32)
        for start in range(0, cols, LENGTH):
            maxima = tl.maximum(maxima, load_piece(x_row, start, cols, LENGTH))
        top = tl.max(maxima, axis=0)
        first = row.to(tl.int64) * cols
        if top_k_ptr is not None and FEW > 0:
            count = FEW + 1
            if (k > 0) & (k <= FEW) & (k < cols):
                count = leave_few(few_ptr, places_ptr, x_row, maxima, cols, k, LENGTH, FEW)
            if count <= FEW:
                token = token_of_few(few_ptr, places_ptr, count, top, inverse, k, p, seed, first, FEW)
            else:
                token = token_of_all(x_row, cols, top, inverse, k, p, seed, first, LOW, PIECE, WHOLE)
        else:
            token = token_of_all(x_row, cols, top, inverse, k, p, seed, first, LOW, PIECE, WHOLE)
        token = tl.where((top > float("-inf")) & (top < float("inf")), token, -1)
        tl.store(out_ptr + row, token.to(out_ptr.dtype.element_ty))
