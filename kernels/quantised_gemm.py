"""C = epilogue(A W^T + bias) for weights W of 8 or 4 bits with scales, which become numbers of A's type on the way to the tensor
cores: W is never there in 16 bits.

A is M x K, float16 or bfloat16; W is N x K, as the weights of linear layers are, of int8 or float8, or two numbers of 4 bits in a
uint8, the first one in the low half: PACKED = int4, -8 to 7; uint4, 0 to 15; e2m1, a sign and one of 0, 0.5, 1, 1.5, 2, 3, 4, 6.
W[n, k] stands for (w - zeros[n, g]) * scales[n, g], g = k // GROUP, or g = 0 for GROUP = 0; `zeros` may be None. Scales of uint8
are exponents of 2 plus 127. The products of a group are summed up and then scaled, in fp32: weights are not rounded (where the warps
divide the tile, zeros are, to A's type, in which integers up to 128 are exact). Groups of 32 and 64 whose scales are of A's type
(SCALED) are too short for that: their weights are scaled on the way, and are then what weights of 16 bits would be.

The transposed product W A^T is computed, whose instructions take 8 rows of A and more. For up to 64 rows a thread may take its part of W
from memory in pieces of 16 bytes and have the tensor cores' operand in its registers: K is counted in the order that makes it so. Then the
warps divide the K-steps into SHARES (0: they divide the tile), and add up their sums at the end. What weights are less is taken from the
sums there, as that many sums of A: rows of A that are not finite give NaN. One row of A may be multiplied without tensor cores
(BLOCK_M = 1): a thread has a piece of 16 bytes of each of BLOCK_N rows of W, and no thread waits for another before the sums are
complete. Where tiles are few, several programs share the K-steps of a tile; the last one that
is done adds up their sums in order, so that results are the same in every run.
"""

import triton
import triton.language as tl

from gemm_tiles import PROCESSORS, row_class
from quantise import power_of_two, value_of
from tiles import activate


# ---- Configurations.


def tile(m, n, k, warps, stages, programs, shares=0, maxnreg=None):
    blocks = {"BLOCK_M": m, "BLOCK_N": n, "STEP": k, "PROGRAMS": programs, "STAGES": stages, "SHARES": shares}
    return triton.Config(blocks, num_warps=warps, num_stages=stages, maxnreg=maxnreg)


def configs():
    found = []
    for n, k, warps, stages in [(8, 2048, 2, 3), (8, 2048, 2, 2), (4, 1024, 1, 3), (4, 2048, 2, 2), (8, 1024, 1, 3), (8, 512, 1, 1),
                                (2, 1024, 2, 1), (2, 2048, 4, 1), (8, 2048, 4, 1), (4, 512, 1, 1), (4, 1024, 2, 1), (1, 64, 1, 1)]:
        found.append(tile(1, n, k, warps, stages, 4))
    for m in [8, 16]:
        for n, shares, products, stages, programs, maxnreg in SHARED:
            found.append(tile(m, n, 128 * products * shares, shares, stages, programs, shares, maxnreg))
        for n in [16, 32]:
            found.append(tile(m, n, 128, 1, 1, 16, 1))
    for m in [32, 64]:
        for n, shares, products, stages, programs in SHARED_BY_MORE_ROWS:
            found.append(tile(m, n, 128 * products * shares, shares, stages, programs, shares))
    for m in [16, 32, 48, 64]:
        for n, k, warps, programs in [(64, 128, 4, 4), (64, 128, 4, 2), (64, 256, 4, 2), (128, 128, 4, 2), (128, 128, 8, 2), (64, 64, 4, 4),
                                      (32, 128, 2, 8), (16, 128, 1, 16), (128, 256, 8, 1)]:
            for stages in [4, 3, 6]:
                found.append(tile(m, n, k, warps, stages, programs))
        found.append(tile(m, 128, 128, 8, 3, 1))
        found.append(tile(m, 128, 256, 8, 8, 1))
    for m in [96, 128, 192, 256]:
        for n, k, warps in [(64, 64, 4), (128, 64, 8), (64, 128, 4), (128, 128, 8), (128, 64, 4)]:
            found.append(tile(m, n, k, warps, 3, 1))
    found.append(tile(16, 16, 64, 1, 3, 2))
    return found


# Rows of W, warps that divide K, products of each that follow each other, stages, programs, registers.
SHARED = [(16, 8, 2, 1, 0, None), (16, 4, 4, 1, 0, None), (16, 4, 7, 1, 0, None), (16, 8, 1, 2, 0, 96), (32, 4, 1, 2, 0, 128),
          (32, 4, 2, 1, 0, None), (32, 4, 2, 2, 0, None), (32, 4, 4, 1, 0, None), (32, 8, 1, 1, 0, None), (32, 8, 1, 2, 0, None),
          (32, 8, 2, 1, 0, None), (32, 8, 2, 2, 0, None), (32, 16, 1, 1, 0, None), (32, 16, 1, 2, 0, None), (64, 4, 1, 2, 0, None),
          (16, 8, 2, 1, 4, None), (16, 4, 2, 1, 8, None), (32, 4, 1, 2, 4, 128), (32, 8, 1, 2, 4, None)]
# Likewise for 17 to 64 rows of A.
SHARED_BY_MORE_ROWS = [(16, 4, 1, 1, 0), (16, 8, 1, 1, 0), (32, 4, 1, 1, 0), (32, 8, 1, 1, 0), (32, 8, 1, 2, 0), (64, 4, 1, 1, 0), (64, 8, 1, 1, 0),
                       (32, 4, 2, 1, 0), (32, 4, 1, 1, 4), (64, 4, 1, 1, 4)]


def fills(config, named_args):
    """Whether no block is twice as large as the weights, no warp's share of K is empty, and several programs share a tile where that
    is what the configuration is for."""
    n = config.kwargs["BLOCK_N"]
    programs = config.kwargs["PROGRAMS"]
    if n >= 2 * max(16, named_args["N"]) or (config.kwargs["SHARES"] > 1 and config.kwargs["STEP"] > 2 * named_args["K"]):
        return False
    return programs == 0 or 2 * triton.cdiv(named_args["N"], n) <= programs * PROCESSORS


def whole(configs, named_args):
    """Those whose steps divide K, if there are several: loads without masks take fewer instructions."""
    kept = [c for c in configs if named_args["K"] % c.kwargs["STEP"] == 0]
    return kept if len(kept) > 2 else configs


def fitting(configs, named_args, **kwargs):
    """Tiles that hold all rows of A, or 96 and more of many; of one row and small groups those without tensor cores."""
    m = named_args["M"]
    few = []
    if m == 1 and named_args["GROUP"] in [32, 64]:
        # A thread's piece of W lies in one group.
        rows = [c for c in configs if c.kwargs["BLOCK_M"] == 1]
        few = [c for c in rows if c.kwargs["STEP"] < 2 * named_args["K"]]
        if len(few) == 0:
            few = rows[-1:]
    elif m <= 64:
        shares = [c for c in configs if c.kwargs["BLOCK_M"] == (8 if m <= 8 else 16 if m <= 16 else 32 if m <= 32 else 64) and c.kwargs["SHARES"] > 0]
        few = whole([c for c in shares if fills(c, named_args)], named_args)
    if len(few) > 0 and m <= 16:
        return few
    rows = row_class(named_args["M"])
    kept = few
    for config in configs:
        m = config.kwargs["BLOCK_M"]
        if config.kwargs["SHARES"] > 0 or config.kwargs["BLOCK_N"] > triton.next_power_of_2(named_args["N"]) or config.kwargs["STEP"] > named_args["K"]:
            continue
        if m == rows if rows <= 64 else m >= 96 and m < 2 * rows:
            kept.append(config)
    return kept if len(kept) > 0 else configs[-1:]


# ---- Weights as numbers of A's type.


@triton.jit
def pairs_of_words(word, bias, TYPE: tl.constexpr, SIGNED: tl.constexpr):
    """Numbers i and i + 4 of the eight in each word, i = 0 to 3, plus `bias` (two of TYPE in a word): pairs of TYPE. As bits of
    1024 (128 in bfloat16), and with 8 more if they are signed, they become floats."""
    EIGHT: tl.constexpr = "8" if SIGNED else "0"
    if TYPE == tl.float16:
        # In bits 4 to 7 numbers count 16 times as much: (1024 + 16 x) / 16.
        ASM: tl.constexpr = f"""{{
            .reg .b32 w<4>, next, one, part, high;
            mov.b32 one, 0x3C003C00;
            mov.b32 part, 0x2C002C00;
            mov.b32 high, 0x63806380;
            add.rn.f16x2 high, $5, high;
            shr.u32 next, $4, 8;
            lop3.b32 w0, $4, 0x000F000F, 0x640{EIGHT}640{EIGHT}, 0x6A;
            lop3.b32 w1, $4, 0x00F000F0, 0x64{EIGHT}064{EIGHT}0, 0x6A;
            lop3.b32 w2, next, 0x000F000F, 0x640{EIGHT}640{EIGHT}, 0x6A;
            lop3.b32 w3, next, 0x00F000F0, 0x64{EIGHT}064{EIGHT}0, 0x6A;
            fma.rn.f16x2 $0, w0, one, $5;
            fma.rn.f16x2 $1, w1, part, high;
            fma.rn.f16x2 $2, w2, one, $5;
            fma.rn.f16x2 $3, w3, part, high;
        }}"""
    else:
        ASM: tl.constexpr = f"""{{
            .reg .b32 w<4>, one;
            mov.b32 one, 0x3F803F80;
            shr.u32 w1, $4, 4;
            shr.u32 w2, $4, 8;
            shr.u32 w3, $4, 12;
            lop3.b32 w0, $4, 0x000F000F, 0x430{EIGHT}430{EIGHT}, 0x6A;
            lop3.b32 w1, w1, 0x000F000F, 0x430{EIGHT}430{EIGHT}, 0x6A;
            lop3.b32 w2, w2, 0x000F000F, 0x430{EIGHT}430{EIGHT}, 0x6A;
            lop3.b32 w3, w3, 0x000F000F, 0x430{EIGHT}430{EIGHT}, 0x6A;
            fma.rn.bf16x2 $0, w0, one, $5;
            fma.rn.bf16x2 $1, w1, one, $5;
            fma.rn.bf16x2 $2, w2, one, $5;
            fma.rn.bf16x2 $3, w3, one, $5;
        }}"""
    return tl.inline_asm_elementwise(ASM, "=&r,=&r,=&r,=&r,r,r", [word, bias], (tl.int32, tl.int32, tl.int32, tl.int32), True, 1)


@triton.jit
def halves(pair, TYPE: tl.constexpr):
    return (pair & 0xFFFF).to(tl.int16).to(TYPE, bitcast=True), (pair >> 16).to(tl.int16).to(TYPE, bitcast=True)


@triton.jit
def in_order(p0, p1, p2, p3, TYPE: tl.constexpr):
    """The eight numbers of each word, R x W -> R x 8 W, of its pairs in 32 bits: pair i holds numbers i and i + 4."""
    a0, b0 = halves(p0, TYPE)
    a1, b1 = halves(p1, TYPE)
    a2, b2 = halves(p2, TYPE)
    a3, b3 = halves(p3, TYPE)
    even = tl.join(tl.join(a0, b0), tl.join(a2, b2))  # R x W x half of a word x (number // 2)
    odd = tl.join(tl.join(a1, b1), tl.join(a3, b3))
    return tl.reshape(tl.join(even, odd), [p0.shape[0], 8 * p0.shape[1]])


@triton.jit
def integers_of_words(word, zero, PACKED: tl.constexpr, TYPE: tl.constexpr):
    """The numbers of 4 bits in words of 32, R x W -> R x 8 W, less zero, R x 1 in fp32."""
    SIGNED: tl.constexpr = PACKED == "int4"
    above: tl.constexpr = (1024 if TYPE == tl.float16 else 128) + (8 if SIGNED else 0)
    bias = (-(zero + above)).to(TYPE).to(tl.int16, bitcast=True).to(tl.int32) & 0xFFFF
    p0, p1, p2, p3 = pairs_of_words(word, bias | bias << 16, TYPE, SIGNED)
    return in_order(p0, p1, p2, p3, TYPE)


@triton.jit
def has_fractions(zeros_ptr):
    """Whether zeros may be no integers."""
    if zeros_ptr is not None:
        return zeros_ptr.dtype.element_ty.is_floating()
    else:
        return False


@triton.jit
def load_weights(w_row, first, K, row_mask, zero, PACKED: tl.constexpr, TYPE: tl.constexpr, BLOCK_K: tl.constexpr, EVEN_K: tl.constexpr,
                 FRACTIONS: tl.constexpr):
    """Columns from `first` on of rows that begin at w_row, BLOCK_N x 1, less zero, as numbers of TYPE. Behind K they are any."""
    ELEMENT: tl.constexpr = w_row.dtype.element_ty
    whole = zero
    if FRACTIONS:  # weights become floats by way of large numbers, which have none
        whole = tl.floor(zero)
    if ELEMENT == tl.uint8:
        at = first // 8 + tl.arange(0, BLOCK_K // 8)[None, :]
        mask = row_mask if EVEN_K else row_mask & (at < K // 8)
        word = tl.load(w_row.to(tl.pointer_type(tl.int32)) + at, mask=mask, other=0)
        if PACKED == "e2m1":
            code = word[:, :, None] >> 4 * tl.arange(0, 8)[None, None, :] & 15
            return (tl.reshape(value_of(code, PACKED), [word.shape[0], BLOCK_K]) - zero).to(TYPE)
        else:
            w = integers_of_words(word, whole, PACKED, TYPE)
            return w - (zero - whole).to(TYPE) if FRACTIONS else w
    else:
        at = first + tl.arange(0, BLOCK_K)[None, :]
        mask = row_mask if EVEN_K else row_mask & (at < K)
        w = tl.load(w_row + at, mask=mask, other=0.0)
        if ELEMENT == tl.int8:
            # As the low bits of 2^23 + 128 + w: conversions of integers are slow.
            bits = w.to(tl.uint8, bitcast=True).to(tl.int32) ^ 0x4B000080
            w = bits.to(tl.float32, bitcast=True) - (8388736.0 + whole)
            return (w - (zero - whole)).to(TYPE) if FRACTIONS else w.to(TYPE)
        else:
            return w.to(TYPE)


@triton.jit
def load_numbers(ptrs, mask):
    """Zeros, or scales that are no exponents, as fp32; what is no float stays an integer."""
    x = tl.load(ptrs, mask=mask, other=0)
    if ptrs.dtype.element_ty == tl.uint8:
        return x.to(tl.int32)
    else:
        return x.to(tl.float32)


@triton.jit
def load_factors(ptrs, mask):
    """Scales as fp32."""
    x = load_numbers(ptrs, mask)
    if ptrs.dtype.element_ty == tl.uint8:
        return power_of_two(x)
    else:
        return x


@triton.jit
def column_ptrs(ptr, row, group, stride, then=0):
    """Those of the scales or zeros of rows of W for a group. `then`: so many groups further."""
    return ptr + row.to(tl.int64) * stride + group + then


@triton.jit
def for_each_word(x, WORDS: tl.constexpr):
    """A number for each WORDS words of a row: R x P -> R x P WORDS."""
    return tl.reshape(tl.broadcast_to(x[:, :, None], [x.shape[0], x.shape[1], WORDS]), [x.shape[0], x.shape[1] * WORDS])


@triton.jit
def bits_of_pair(x, TYPE: tl.constexpr):
    """x as TYPE, twice in a word."""
    bits = x.to(TYPE).to(tl.int16, bitcast=True).to(tl.int32) & 0xFFFF
    return bits | bits << 16


@triton.jit
def plus(pair, more, TYPE: tl.constexpr):
    """The sums of the two numbers of each word."""
    if TYPE == tl.float16:
        ASM: tl.constexpr = "add.rn.f16x2 $0, $1, $2;"
    else:
        ASM: tl.constexpr = "{ .reg .b32 one; mov.b32 one, 0x3F803F80; fma.rn.bf16x2 $0, $1, one, $2; }"
    return tl.inline_asm_elementwise(ASM, "=r,r,r", [pair, more], tl.int32, True, 1)


@triton.jit
def times(pair, factor, TYPE: tl.constexpr):
    """The products of the two numbers of each word."""
    if TYPE == tl.float16:
        ASM: tl.constexpr = "mul.rn.f16x2 $0, $1, $2;"
    else:
        ASM: tl.constexpr = "{ .reg .b32 none; mov.b32 none, 0x80008000; fma.rn.bf16x2 $0, $1, $2, none; }"
    return tl.inline_asm_elementwise(ASM, "=r,r,r", [pair, factor], tl.int32, True, 1)


@triton.jit
def scaled_weights(w_row, scales_row, zeros_row, first, left, row_mask, PACKED: tl.constexpr, TYPE: tl.constexpr, GROUP: tl.constexpr,
                   BLOCK_K: tl.constexpr, EVEN_K: tl.constexpr):
    """Columns from `first` on, `left` of which exist, of rows whose weights, scales and zeros (or None) begin at these pointers, R x 1: less
    zeros and times scales, as TYPE. A piece of 16 bytes of a row lies in one group."""
    ELEMENT: tl.constexpr = w_row.dtype.element_ty
    PIECE: tl.constexpr = 32 if ELEMENT == tl.uint8 else 16
    piece = tl.arange(0, BLOCK_K // PIECE)[None, :] * PIECE
    there = row_mask if EVEN_K else row_mask & (piece < left)
    group = (first + piece) // GROUP
    scale = load_factors(scales_row + group, there)
    zero = tl.zeros(scale.shape, tl.float32)
    whole = zero
    FRACTIONS: tl.constexpr = has_fractions(zeros_row)
    if zeros_row is not None:
        zero = load_numbers(zeros_row + group, there).to(tl.float32)
        whole = tl.floor(zero) if FRACTIONS else zero
    if ELEMENT == tl.uint8 and PACKED != "e2m1":
        at = tl.arange(0, BLOCK_K // 8)[None, :]
        word = tl.load(w_row.to(tl.pointer_type(tl.int32)) + first // 8 + at, mask=row_mask if EVEN_K else row_mask & (8 * at < left), other=0)
        SIGNED: tl.constexpr = PACKED == "int4"
        above: tl.constexpr = (1024 if TYPE == tl.float16 else 128) + (8 if SIGNED else 0)
        p0, p1, p2, p3 = pairs_of_words(word, for_each_word(bits_of_pair(-(whole + above), TYPE), 4), TYPE, SIGNED)
        if FRACTIONS:
            less = for_each_word(bits_of_pair(whole - zero, TYPE), 4)
            p0, p1, p2, p3 = plus(p0, less, TYPE), plus(p1, less, TYPE), plus(p2, less, TYPE), plus(p3, less, TYPE)
        factor = for_each_word(bits_of_pair(scale, TYPE), 4)
        return in_order(times(p0, factor, TYPE), times(p1, factor, TYPE), times(p2, factor, TYPE), times(p3, factor, TYPE), TYPE)
    else:
        w = load_weights(w_row, first, first + left, row_mask, 0.0, PACKED, TYPE, BLOCK_K, EVEN_K, False)
        if zeros_row is not None:
            w -= for_each_word(zero.to(TYPE), PIECE)
        return w * for_each_word(scale.to(TYPE), PIECE)


# ---- The product.


@triton.jit
def rows_within(row, count, REPEAT: tl.constexpr):
    """Rows, and which of them are there. With REPEAT rows behind the last one are the last one again, whose products go nowhere:
    loads without masks take fewer instructions, where rows need not follow each other as bulk copies have them."""
    if REPEAT:
        return tl.minimum(row, count - 1), tl.full(row.shape, True, tl.int1)
    else:
        return row, row < count


@triton.jit
def in_fragments(x, FOUR_BITS: tl.constexpr):
    """Columns of x in an order in which each piece of 16 bytes of a row of weights is what a thread holds of a tensor core's operand:
    the K-steps' order does not matter as long as both operands have it."""
    R: tl.constexpr = x.shape[0]
    K: tl.constexpr = x.shape[1]
    if FOUR_BITS:
        WORDS: tl.constexpr = min(4, K // 32)
        return tl.reshape(tl.permute(tl.reshape(x, [R, K // (32 * WORDS), 4, WORDS, 2, 4]), [0, 1, 3, 5, 2, 4]), [R, K])
    else:
        PAIRS: tl.constexpr = min(8, K // 8)
        return tl.reshape(tl.permute(tl.reshape(x, [R, K // (8 * PAIRS), 4, PAIRS, 2]), [0, 1, 3, 2, 4]), [R, K])


@triton.jit
def multiply(acc, begin, end, row, first_col, a_ptr, b_ptr, scales_ptr, zeros_ptr, M, N, K, a_stride, b_stride, scales_stride, zeros_stride,
             PACKED: tl.constexpr, GROUP: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
             STAGES: tl.constexpr, EVEN_K: tl.constexpr, SCALED: tl.constexpr):
    """Adds the products of the K-steps from `begin` to `end` to the sums of a tile, BLOCK_N rows of W x BLOCK_M rows of A."""
    TYPE: tl.constexpr = a_ptr.dtype.element_ty
    FRACTIONS: tl.constexpr = has_fractions(zeros_ptr)
    row, row_there = rows_within(row, N, False)
    col, col_there = rows_within(first_col + tl.arange(0, BLOCK_M), M, False)
    depth = tl.arange(0, BLOCK_K)
    row_mask = row_there[:, None]
    col_mask = col_there[:, None]
    a_ptrs = a_ptr + col[:, None].to(tl.int64) * a_stride + depth[None, :] + tl.cast(begin, tl.int64) * BLOCK_K
    b_row = b_ptr + row[:, None].to(tl.int64) * b_stride
    zero = tl.zeros([BLOCK_N, 1], tl.float32)
    if zeros_ptr is not None and GROUP == 0:
        zero = load_numbers(column_ptrs(zeros_ptr, row, 0, zeros_stride), row_there)[:, None].to(tl.float32)
    scales_row = column_ptrs(scales_ptr, row, 0, scales_stride)[:, None]
    zeros_row = zeros_ptr
    if zeros_ptr is not None:
        zeros_row = column_ptrs(zeros_ptr, row, 0, zeros_stride)[:, None]
    for step in tl.range(begin, end, num_stages=STAGES):
        a = tl.load(a_ptrs, mask=col_mask if EVEN_K else col_mask & (depth < K - step * BLOCK_K)[None, :], other=0.0)
        if SCALED:
            first = step * BLOCK_K
            b = scaled_weights(b_row, scales_row, zeros_row, first, K - first, row_mask, PACKED, TYPE, GROUP, BLOCK_K, EVEN_K)
            acc = tl.dot(b, tl.trans(a), acc)
        elif GROUP > 0:
            scale = load_factors(column_ptrs(scales_ptr, row, step, scales_stride), row_there)
            if zeros_ptr is not None:
                zero = load_numbers(column_ptrs(zeros_ptr, row, step, zeros_stride), row_there)[:, None].to(tl.float32)
            b = load_weights(b_row, step * BLOCK_K, K, row_mask, zero, PACKED, TYPE, BLOCK_K, EVEN_K, FRACTIONS)
            acc += tl.dot(b, tl.trans(a)) * scale[:, None]
        else:
            b = load_weights(b_row, step * BLOCK_K, K, row_mask, zero, PACKED, TYPE, BLOCK_K, EVEN_K, FRACTIONS)
            acc = tl.dot(b, tl.trans(a), acc)
        a_ptrs += BLOCK_K
    if GROUP == 0:
        acc *= load_factors(column_ptrs(scales_ptr, row, 0, scales_stride), row_there)[:, None]
    return acc


@triton.jit
def plain_pairs(word, TYPE: tl.constexpr, SIGNED: tl.constexpr):
    """Numbers i and i + 4 of the eight in each word, i = 0 to 3, as pairs of TYPE (two in a word): 2^-24 times the numbers in float16,
    whose bits they are then, and 128 plus these in bfloat16; signed ones are 8 more."""
    EIGHT: tl.constexpr = "8" if SIGNED else "0"
    if TYPE == tl.float16:
        # In bits 4 to 7 numbers count 16 times as much.
        ASM: tl.constexpr = f"""{{
            .reg .b32 next, part;
            mov.b32 part, 0x2C002C00;
            shr.u32 next, $4, 8;
            lop3.b32 $0, $4, 0x000F000F, 0x000{EIGHT}000{EIGHT}, 0x6A;
            lop3.b32 $1, $4, 0x00F000F0, 0x00{EIGHT}000{EIGHT}0, 0x6A;
            lop3.b32 $2, next, 0x000F000F, 0x000{EIGHT}000{EIGHT}, 0x6A;
            lop3.b32 $3, next, 0x00F000F0, 0x00{EIGHT}000{EIGHT}0, 0x6A;
            mul.rn.f16x2 $1, $1, part;
            mul.rn.f16x2 $3, $3, part;
        }}"""
    else:
        ASM: tl.constexpr = f"""{{
            .reg .b32 w<4>;
            shr.u32 w1, $4, 4;
            shr.u32 w2, $4, 8;
            shr.u32 w3, $4, 12;
            lop3.b32 $0, $4, 0x000F000F, 0x430{EIGHT}430{EIGHT}, 0x6A;
            lop3.b32 $1, w1, 0x000F000F, 0x430{EIGHT}430{EIGHT}, 0x6A;
            lop3.b32 $2, w2, 0x000F000F, 0x430{EIGHT}430{EIGHT}, 0x6A;
            lop3.b32 $3, w3, 0x000F000F, 0x430{EIGHT}430{EIGHT}, 0x6A;
        }}"""
    return tl.inline_asm_elementwise(ASM, "=&r,=&r,=&r,=&r,r", [word], (tl.int32, tl.int32, tl.int32, tl.int32), True, 1)


@triton.jit
def plain_bytes(w, TYPE: tl.constexpr):
    """int8 as TYPE, four at a time."""
    if TYPE == tl.float16:
        # Bits of 1024 + 128 + w.
        ASM: tl.constexpr = """{
            .reg .b32 w, high, less;
            mov.b32 high, 0x64646464;
            mov.b32 less, 0xE480E480;
            xor.b32 w, $2, 0x80808080;
            prmt.b32 $0, w, high, 0x4140;
            prmt.b32 $1, w, high, 0x4342;
            add.rn.f16x2 $0, $0, less;
            add.rn.f16x2 $1, $1, less;
        }"""
    else:
        # Bits of 128 + the lower seven bits, less those of 128 or, of what is negative, 256.
        ASM: tl.constexpr = """{
            .reg .b32 a, b, c, d, minus;
            mov.b32 minus, 0xBF80BF80;
            prmt.b32 a, $2, 0, 0x4140;
            prmt.b32 b, $2, 0, 0x4342;
            lop3.b32 c, a, 0x00800080, 0x43004300, 0xEA;
            lop3.b32 d, b, 0x00800080, 0x43004300, 0xEA;
            lop3.b32 a, a, 0x007F007F, 0x43004300, 0xEA;
            lop3.b32 b, b, 0x007F007F, 0x43004300, 0xEA;
            fma.rn.bf16x2 $0, c, minus, a;
            fma.rn.bf16x2 $1, d, minus, b;
        }"""
    return tl.inline_asm_elementwise(ASM, "=&r,=&r,r", [w], TYPE, True, 4)


@triton.jit
def plain_weights(w_row, first, left, PACKED: tl.constexpr, TYPE: tl.constexpr, BLOCK_K: tl.constexpr, EVEN_K: tl.constexpr):
    """Columns from `first` on, `left` of which exist, of rows that begin at w_row, R x 1, as TYPE: integers of 4 bits in units and with
    more, as unit() and excess() say."""
    ELEMENT: tl.constexpr = w_row.dtype.element_ty
    if ELEMENT == tl.uint8:
        at = tl.arange(0, BLOCK_K // 8)[None, :]
        words = w_row.to(tl.pointer_type(tl.int32)) + first // 8 + at
        word = tl.load(words) if EVEN_K else tl.load(words, mask=8 * at < left, other=0)
        if PACKED == "e2m1":
            code = word[:, :, None] >> 4 * tl.arange(0, 8)[None, None, :] & 15
            return tl.reshape(value_of(code, PACKED), [word.shape[0], BLOCK_K]).to(TYPE)
        else:
            p0, p1, p2, p3 = plain_pairs(word, TYPE, PACKED == "int4")
            return in_order(p0, p1, p2, p3, TYPE)
    else:
        at = tl.arange(0, BLOCK_K)[None, :]
        w = tl.load(w_row + first + at) if EVEN_K else tl.load(w_row + first + at, mask=at < left, other=0.0)
        return plain_bytes(w, TYPE) if ELEMENT == tl.int8 else w.to(TYPE)


@triton.jit
def excess(ELEMENT: tl.constexpr, PACKED: tl.constexpr, TYPE: tl.constexpr):
    """What plain_weights() has more than the weights."""
    if ELEMENT == tl.uint8 and PACKED != "e2m1":
        return (0 if TYPE == tl.float16 else 128) + (8 if PACKED == "int4" else 0)
    else:
        return 0


@triton.jit
def unit(ELEMENT: tl.constexpr, PACKED: tl.constexpr, TYPE: tl.constexpr):
    """What 1 is in plain_weights()."""
    if ELEMENT == tl.uint8 and PACKED != "e2m1" and TYPE == tl.float16:
        return 5.9604644775390625e-08
    else:
        return 1.0


@triton.jit
def multiply_shares(begin, end, row, first_col, a_ptr, b_ptr, scales_ptr, zeros_ptr, M, N, K, a_stride, b_stride, scales_stride, zeros_stride,
                    PACKED: tl.constexpr, GROUP: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
                    STEP: tl.constexpr, SHARES: tl.constexpr, STAGES: tl.constexpr, EVEN_K: tl.constexpr, SCALED: tl.constexpr):
    """The same with STEP / BLOCK_K products at a time, a batch whose sums are added up at the end: every SHARES of them are of as many
    warps, each of which has its operands in its registers as they come from memory, and PER products that follow each other along K.

    sum((w - zero) a) = sum(w a) - zero sum(a): what weights are to be less is no matter of theirs. Sums of A are products, too, of a
    matrix of ones, once for all rows of W."""
    TYPE: tl.constexpr = a_ptr.dtype.element_ty
    ELEMENT: tl.constexpr = b_ptr.dtype.element_ty
    FOUR_BITS: tl.constexpr = ELEMENT == tl.uint8
    EXCESS: tl.constexpr = excess(ELEMENT, PACKED, TYPE)
    UNIT: tl.constexpr = 1.0 if SCALED else unit(ELEMENT, PACKED, TYPE)
    BATCH: tl.constexpr = STEP // BLOCK_K
    PER: tl.constexpr = BATCH // SHARES
    ROWS: tl.constexpr = BATCH * BLOCK_N
    LESS: tl.constexpr = not SCALED and (zeros_ptr is not None or EXCESS > 0)
    BY_GROUP: tl.constexpr = GROUP > 0 and not SCALED
    row, row_there = rows_within(row, N, True)
    col, col_there = rows_within(first_col + tl.arange(0, BLOCK_M), M, True)
    number = tl.arange(0, BATCH)
    depth = tl.arange(0, BLOCK_K)
    first = (number % SHARES * PER + number // SHARES) * BLOCK_K
    a_ptrs = a_ptr + col.to(tl.int64)[None, :, None] * a_stride + first[:, None, None] + depth[None, None, :] + tl.cast(begin, tl.int64) * STEP
    b_row = b_ptr + row.to(tl.int64)[None, :] * b_stride + (first // 2 if FOUR_BITS else first)[:, None]
    b_row = tl.reshape(b_row, [ROWS, 1])
    left = tl.reshape(tl.broadcast_to(K - first[:, None], [BATCH, BLOCK_N]), [ROWS, 1])
    of_share = PER * tl.arange(0, SHARES)[None, :, None]  # the first one along K
    then = tl.arange(0, PER)[:, None, None]
    scale = tl.zeros([BATCH, BLOCK_N], tl.float32)
    less = tl.full([BATCH, BLOCK_N], EXCESS, tl.float32)
    ones = tl.full([BATCH, 16, BLOCK_K], UNIT, TYPE)
    acc = tl.zeros([BATCH, BLOCK_N, BLOCK_M], tl.float32)
    sums = tl.zeros([BATCH, 16, BLOCK_M], tl.float32)
    # Scales of a share begin where its first columns do.
    first_group = tl.reshape(tl.broadcast_to(first[:, None] // GROUP if SCALED else first[:, None], [BATCH, BLOCK_N]), [ROWS])
    each_row = tl.reshape(tl.broadcast_to(row[None, :], [BATCH, BLOCK_N]), [ROWS])
    all_there = tl.full([ROWS, 1], True, tl.int1)
    scales_row = column_ptrs(scales_ptr, each_row, first_group, scales_stride)[:, None]
    zeros_row = zeros_ptr
    if zeros_ptr is not None:
        zeros_row = column_ptrs(zeros_ptr, each_row, first_group, zeros_stride)[:, None]
    for step in tl.range(begin, end, num_stages=STAGES):
        if SCALED:
            b = scaled_weights(b_row, scales_row, zeros_row, step * STEP, left - step * STEP, all_there, PACKED, TYPE, GROUP, BLOCK_K, EVEN_K)
        else:
            b = plain_weights(b_row, step * STEP, left - step * STEP, PACKED, TYPE, BLOCK_K, EVEN_K)
        if BY_GROUP:
            group = step * BATCH + of_share
            there = tl.full([PER, SHARES, BLOCK_N], True, tl.int1) if EVEN_K else tl.broadcast_to((group + then) * GROUP < K, [PER, SHARES, BLOCK_N])
            scale = tl.reshape(load_factors(column_ptrs(scales_ptr, row[None, None, :], group, scales_stride, then), there), [BATCH, BLOCK_N])
            if zeros_ptr is not None:
                zero = load_numbers(column_ptrs(zeros_ptr, row[None, None, :], group, zeros_stride, then), there).to(tl.float32)
                less = tl.reshape(zero, [BATCH, BLOCK_N]) + EXCESS
        if EVEN_K:
            a = tl.load(a_ptrs)
        else:
            a = tl.load(a_ptrs, mask=(depth[None, :] < K - step * STEP - first[:, None])[:, None, :], other=0.0)
        b = tl.reshape(in_fragments(b, FOUR_BITS), [BATCH, BLOCK_N, BLOCK_K])
        a = tl.reshape(in_fragments(tl.reshape(a, [BATCH * BLOCK_M, BLOCK_K]), FOUR_BITS), [BATCH, BLOCK_M, BLOCK_K])
        a = tl.trans(a, (0, 2, 1))
        if BY_GROUP:
            products = tl.dot(b, a)
            if LESS:
                products -= less[:, :, None] * for_all_rows(tl.dot(ones, a), BLOCK_N)
            acc += products * scale[:, :, None]
        else:
            acc = tl.dot(b, a, acc)
            if LESS:
                sums = tl.dot(ones, a, sums)
        a_ptrs += STEP
    if GROUP == 0 and LESS:
        if zeros_ptr is not None:
            zero = load_numbers(column_ptrs(zeros_ptr, row, 0, zeros_stride), row_there).to(tl.float32)
            less = tl.broadcast_to((zero + EXCESS)[None, :], [BATCH, BLOCK_N])
        acc -= less[:, :, None] * for_all_rows(sums, BLOCK_N)
    acc = tl.sum(tl.sum(tl.reshape(acc, [PER, SHARES, BLOCK_N, BLOCK_M]), axis=0), axis=0)
    if GROUP == 0:
        acc *= load_factors(column_ptrs(scales_ptr, row, 0, scales_stride), row_there)[:, None]
    return acc * (1 / UNIT)


@triton.jit
def for_all_rows(x, ROWS: tl.constexpr):
    """The first row of each matrix, which all of its 16 rows are, ROWS times, a multiple of 16."""
    BATCH: tl.constexpr = x.shape[0]
    M: tl.constexpr = x.shape[2]
    return tl.reshape(tl.broadcast_to(x[:, None, :, :], [BATCH, ROWS // 16, 16, M]), [BATCH, ROWS, M])


@triton.jit
def multiply_row(begin, end, row, col, a_ptr, b_ptr, scales_ptr, zeros_ptr, M, N, K, a_stride, b_stride, scales_stride, zeros_stride,
                 PACKED: tl.constexpr, GROUP: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, STAGES: tl.constexpr,
                 EVEN_K: tl.constexpr):
    """The products of the steps from `begin` to `end` of BLOCK_N rows of W and one row of A, as a column. PIECE elements of a row are
    16 bytes, which a thread has, and are of one group."""
    FOUR_BITS: tl.constexpr = b_ptr.dtype.element_ty == tl.uint8
    PIECE: tl.constexpr = 32 if FOUR_BITS else 16
    TYPE: tl.constexpr = tl.float16 if FOUR_BITS else tl.float32  # any of 4 bits is exact
    row, row_there = rows_within(row, N, True)
    row_mask = row_there[:, None]
    b_row = b_ptr + row[:, None].to(tl.int64) * b_stride
    a_row = a_ptr + tl.cast(col, tl.int64) * a_stride
    none = tl.zeros([BLOCK_N, 1], tl.float32)
    sums = tl.zeros([BLOCK_N, BLOCK_K // PIECE], tl.float32)
    for step in tl.range(begin, end, num_stages=STAGES):
        first = step * BLOCK_K
        at = first + tl.arange(0, BLOCK_K)
        a = tl.load(a_row + at, mask=at < K, other=0.0).to(tl.float32)
        w = load_weights(b_row, first, K, row_mask, none, PACKED, TYPE, BLOCK_K, EVEN_K, False).to(tl.float32)
        products = tl.sum(tl.reshape(w * a[None, :], [BLOCK_N, BLOCK_K // PIECE, PIECE]), axis=2)
        piece = step * (BLOCK_K // PIECE) + tl.arange(0, BLOCK_K // PIECE)
        group = piece * PIECE // GROUP if GROUP > 0 else piece * 0
        there = row_mask & (piece * PIECE < K)[None, :]
        if zeros_ptr is not None:
            zero = tl.load(zeros_ptr + row[:, None].to(tl.int64) * zeros_stride + group[None, :], mask=there, other=0).to(tl.float32)
            products -= zero * tl.sum(tl.reshape(a, [BLOCK_K // PIECE, PIECE]), axis=1)[None, :]
        if GROUP > 0:
            scale = tl.load(scales_ptr + row[:, None].to(tl.int64) * scales_stride + group[None, :], mask=there, other=0)
            if scales_ptr.dtype.element_ty == tl.uint8:
                products *= power_of_two(scale.to(tl.int32))
            else:
                products *= scale.to(tl.float32)
        sums += products
    acc = tl.sum(sums, axis=1)[:, None]
    if GROUP == 0:
        acc *= load_factors(column_ptrs(scales_ptr, row, 0, scales_stride), row_there)[:, None]
    return acc


@triton.jit
def finish(acc, row, col, out_ptr, bias_ptr, M, N, out_stride, EPILOGUE: tl.constexpr):
    if bias_ptr is not None:
        acc += tl.load(bias_ptr + row, mask=row < N, other=0.0).to(tl.float32)[:, None]
    there = out_ptr + col[:, None].to(tl.int64) * out_stride + row[None, :]
    result = activate(acc, EPILOGUE).to(out_ptr.dtype.element_ty)
    tl.store(there, tl.trans(result), mask=(col < M)[:, None] & (row < N)[None, :])


def are_scaled(args):
    """Whether weights are scaled before they are multiplied: those of short groups with scales that are numbers of A's type."""
    scales = args["scales_ptr"].dtype
    exact = scales == args["a_ptr"].dtype or (scales == tl.uint8 and args["a_ptr"].dtype == tl.bfloat16)
    return args["GROUP"] in [32, 64] and args["BLOCK_M"] > 1 and exact


def columns_at_once(args):
    """Columns of weights in a product: those of a group, or of any number of groups that are scaled before or without tensor cores."""
    if args["GROUP"] > 0 and args["BLOCK_M"] > 1 and not are_scaled(args):
        return args["GROUP"]
    return min(args["STEP"] // args["SHARES"], 128) if args["SHARES"] > 0 else args["STEP"]


@triton.autotune(configs=configs(), key=["m_class", "N", "K", "GROUP"], prune_configs_by={"early_config_prune": fitting, "top_k": 32})
@triton.heuristics({
    "SCALED": are_scaled,
    "BLOCK_K": lambda args: columns_at_once(args),
    "EVEN_K": lambda args: args["K"] % (args["STEP"] if args["SHARES"] > 0 else columns_at_once(args)) == 0,
})
@triton.jit
def quantised_gemm(out_ptr, a_ptr, b_ptr, scales_ptr, zeros_ptr, bias_ptr, M, N, K, out_stride, a_stride, b_stride, scales_stride,
                   zeros_stride, m_class, partials_ptr, counters_ptr, EPILOGUE: tl.constexpr, PACKED: tl.constexpr, GROUP: tl.constexpr,
                   BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, STEP: tl.constexpr, PROGRAMS: tl.constexpr, STAGES: tl.constexpr, SHARES: tl.constexpr,
                   BLOCK_K: tl.constexpr, EVEN_K: tl.constexpr, SCALED: tl.constexpr):
    """About PROGRAMS programs a multiprocessor, a multiple of the number of tiles; 0: one a tile. Those of a tile leave their sums, and
    the last one sets the tile's counter back. Where SHARES divide K, BLOCK_M is M at least."""
    tiles_m = 1 if SHARES > 0 else tl.cdiv(M, BLOCK_M)
    splits = 1
    share = 0
    program = tl.program_id(0)
    steps = tl.cdiv(K, STEP if SHARES > 0 else BLOCK_K)
    begin = 0
    end = steps
    if PROGRAMS > 0:
        splits = tl.num_programs(0) // (tiles_m * tl.cdiv(N, BLOCK_N))
        share = program % splits
        program = program // splits
        begin = share * (steps // splits) + min(share, steps % splits)
        end = begin + steps // splits + (share < steps % splits)
    row = program // tiles_m * BLOCK_N + tl.arange(0, BLOCK_N)
    first_col = program % tiles_m * BLOCK_M
    col = first_col + tl.arange(0, BLOCK_M)
    if BLOCK_M == 1:
        acc = multiply_row(begin, end, row, first_col, a_ptr, b_ptr, scales_ptr, zeros_ptr, M, N, K, a_stride, b_stride, scales_stride,
                           zeros_stride, PACKED, GROUP, BLOCK_N, BLOCK_K, STAGES, EVEN_K)
    elif SHARES > 0:
        acc = multiply_shares(begin, end, row, first_col, a_ptr, b_ptr, scales_ptr, zeros_ptr, M, N, K, a_stride, b_stride, scales_stride,
                              zeros_stride, PACKED, GROUP, BLOCK_M, BLOCK_N, BLOCK_K, STEP, SHARES, STAGES, EVEN_K, SCALED)
    else:
        acc = multiply(tl.zeros((BLOCK_N, BLOCK_M), dtype=tl.float32), begin, end, row, first_col, a_ptr, b_ptr, scales_ptr, zeros_ptr, M, N,
                       K, a_stride, b_stride, scales_stride, zeros_stride, PACKED, GROUP, BLOCK_M, BLOCK_N, BLOCK_K, STAGES, EVEN_K, SCALED)
    if splits == 1:
        finish(acc, row, col, out_ptr, bias_ptr, M, N, out_stride, EPILOGUE)
    else:
        place = tl.arange(0, BLOCK_N)[:, None] + tl.arange(0, BLOCK_M)[None, :] * BLOCK_N
        used = (col < M)[None, :]
        sums = partials_ptr + (program * splits).to(tl.int64) * (BLOCK_N * BLOCK_M) + place
        tl.store(sums + share * (BLOCK_N * BLOCK_M), acc, mask=used)
        tl.debug_barrier()
        if tl.atomic_add(counters_ptr + program, 1) == splits - 1:
            acc = tl.zeros((BLOCK_N, BLOCK_M), dtype=tl.float32)
            for other in range(0, splits):
                acc += tl.load(sums + other * (BLOCK_N * BLOCK_M), mask=used, other=0.0, cache_modifier=".cg")
            finish(acc, row, col, out_ptr, bias_ptr, M, N, out_stride, EPILOGUE)
            tl.store(counters_ptr + program, 0)
