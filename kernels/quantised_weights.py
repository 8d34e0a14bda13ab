"""Weights of quantised_gemm.py as numbers of A's type: less zeros, as they are, or scaled."""

import triton
import triton.language as tl

from quantise import power_of_two, value_of


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
def pair_of_byte(byte, bias, TYPE: tl.constexpr, SIGNED: tl.constexpr):
    """The two numbers of 4 bits in each byte plus `bias` (twice in a word), as a pair of TYPE. Biases as of pairs_of_words()."""
    HIGH: tl.constexpr = ("64" if TYPE == tl.float16 else "43") + ("08" if SIGNED else "00")
    ADD: tl.constexpr = "add.rn.f16x2 $0, w, $2;" if TYPE == tl.float16 else "mov.b32 one, 0x3F803F80; fma.rn.bf16x2 $0, w, one, $2;"
    ASM: tl.constexpr = f"""{{
        .reg .b32 w, one;
        mad.lo.u32 w, $1, 4096, $1;
        lop3.b32 w, w, 0x000F000F, 0x{HIGH}{HIGH}, 0x6A;
        {ADD}
    }}"""
    return tl.inline_asm_elementwise(ASM, "=r,r,r", [byte, bias], tl.int32, True, 1)


@triton.jit
def pairs_of_bytes(w_row, first, K, row_mask, zero, PACKED: tl.constexpr, TYPE: tl.constexpr, BLOCK_K: tl.constexpr, EVEN_K: tl.constexpr):
    """Columns from `first` on of rows that begin at w_row, BLOCK_N x 1, as pairs of TYPE, less zero."""
    SIGNED: tl.constexpr = PACKED == "int4"
    above: tl.constexpr = (1024 if TYPE == tl.float16 else 128) + (8 if SIGNED else 0)
    at = first // 2 + tl.arange(0, BLOCK_K // 2)[None, :]
    byte = tl.load(w_row + at, mask=row_mask if EVEN_K else row_mask & (at < K // 2), other=0)
    return pair_of_byte(byte.to(tl.int32), bits_of_pair(-(zero + above), TYPE), TYPE, SIGNED)


@triton.jit
def two_bytes(w, TYPE: tl.constexpr):
    """int8 as TYPE, two at a time."""
    if TYPE == tl.float16:
        # Bits of 1024 + 128 + w.
        ASM: tl.constexpr = """{
            .reg .b32 w, high, less;
            mov.b32 high, 0x64646464;
            mov.b32 less, 0xE480E480;
            prmt.b32 w, $1, high, 0x4140;
            xor.b32 w, w, 0x00800080;
            add.rn.f16x2 $0, w, less;
        }"""
    else:
        # Bits of 128 + the lower seven bits, less those of 128 or, of what is negative, 256.
        ASM: tl.constexpr = """{
            .reg .b32 w, less, minus;
            mov.b32 minus, 0xBF80BF80;
            prmt.b32 w, $1, 0, 0x4140;
            lop3.b32 less, w, 0x00800080, 0x43004300, 0xEA;
            lop3.b32 w, w, 0x007F007F, 0x43004300, 0xEA;
            fma.rn.bf16x2 $0, less, minus, w;
        }"""
    return tl.inline_asm_elementwise(ASM, "=r,r", [w], TYPE, True, 2)


@triton.jit
def both(pair, TYPE: tl.constexpr):
    """The numbers of pairs, R x P -> R x 2 P."""
    a, b = halves(pair, TYPE)
    return tl.reshape(tl.join(a, b), [pair.shape[0], 2 * pair.shape[1]])


@triton.jit
def has_fractions(zeros_ptr):
    """Whether zeros may be no integers."""
    if zeros_ptr is not None:
        return zeros_ptr.dtype.element_ty.is_floating()
    else:
        return False


@triton.jit
def load_weights(w_row, first, K, row_mask, zero, PACKED: tl.constexpr, TYPE: tl.constexpr, BLOCK_K: tl.constexpr, EVEN_K: tl.constexpr,
                 FRACTIONS: tl.constexpr, BYTES: tl.constexpr = False, ZEROS: tl.constexpr = True):
    """Columns from `first` on of rows that begin at w_row, BLOCK_N x 1, less zero, as numbers of TYPE. Behind K they are any. BYTES: integers
    become TYPE two at a time, as the tensor cores' operand has them. ZEROS: zero may be another number than 0."""
    ELEMENT: tl.constexpr = w_row.dtype.element_ty
    whole = zero
    if FRACTIONS:  # weights become floats by way of large numbers, which have none
        whole = tl.floor(zero)
    if ELEMENT == tl.uint8 and BYTES and PACKED != "e2m1":
        pair = pairs_of_bytes(w_row, first, K, row_mask, whole, PACKED, TYPE, BLOCK_K, EVEN_K)
        if FRACTIONS:
            pair = plus(pair, bits_of_pair(whole - zero, TYPE), TYPE)
        return both(pair, TYPE)
    elif ELEMENT == tl.uint8:
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
        if ELEMENT == tl.int8 and BYTES and not ZEROS:
            return two_bytes(w, TYPE)
        elif ELEMENT == tl.int8:
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
                   BLOCK_K: tl.constexpr, EVEN_K: tl.constexpr, BYTES: tl.constexpr = False):
    """Columns from `first` on, `left` of which exist, of rows whose weights, scales and zeros (or None) begin at these pointers, R x 1: less
    zeros and times scales, as TYPE. A piece of 16 bytes of a row lies in one group. BYTES: as of load_weights(), and first is a multiple of
    BLOCK_K."""
    ELEMENT: tl.constexpr = w_row.dtype.element_ty
    PIECE: tl.constexpr = min(GROUP, BLOCK_K) if BYTES else 32 if ELEMENT == tl.uint8 else 16
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
    if ELEMENT == tl.uint8 and PACKED != "e2m1" and BYTES:
        pair = pairs_of_bytes(w_row, first, first + left, row_mask, for_each_word(whole, PIECE // 2), PACKED, TYPE, BLOCK_K, EVEN_K)
        if FRACTIONS:
            pair = plus(pair, for_each_word(bits_of_pair(whole - zero, TYPE), PIECE // 2), TYPE)
        return both(times(pair, for_each_word(bits_of_pair(scale, TYPE), PIECE // 2), TYPE), TYPE)
    elif ELEMENT == tl.uint8 and PACKED != "e2m1":
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
        w = load_weights(w_row, first, first + left, row_mask, 0.0, PACKED, TYPE, BLOCK_K, EVEN_K, False, BYTES, False)
        if zeros_row is not None:
            w -= for_each_word(zero.to(TYPE), PIECE)
        return w * for_each_word(scale.to(TYPE), PIECE)


@triton.jit
def plain_pairs(word, TYPE: tl.constexpr, SIGNED: tl.constexpr):
    """Numbers i and i + 4 of the eight in each word, i = 0 to 3, as pairs of TYPE (two in a word): unsigned ones in float16 as 2^-24 times
    the numbers, whose bits they are then."""
    if TYPE == tl.float16 and not SIGNED:
        # In bits 4 to 7 numbers count 16 times as much.
        ASM: tl.constexpr = """{
            .reg .b32 next, part;
            mov.b32 part, 0x2C002C00;
            shr.u32 next, $4, 8;
            and.b32 $0, $4, 0x000F000F;
            and.b32 $1, $4, 0x00F000F0;
            and.b32 $2, next, 0x000F000F;
            and.b32 $3, next, 0x00F000F0;
            mul.rn.f16x2 $1, $1, part;
            mul.rn.f16x2 $3, $3, part;
        }"""
        return tl.inline_asm_elementwise(ASM, "=&r,=&r,=&r,=&r,r", [word], (tl.int32, tl.int32, tl.int32, tl.int32), True, 1)
    else:
        above: tl.constexpr = (1024 if TYPE == tl.float16 else 128) + (8 if SIGNED else 0)
        return pairs_of_words(word, bits_of_pair(tl.full([1, 1], -above, tl.float32), TYPE), TYPE, SIGNED)


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
def plain_weights(w_row, first, left, there, PACKED: tl.constexpr, TYPE: tl.constexpr, BLOCK_K: tl.constexpr, EVEN_K: tl.constexpr):
    """Columns from `first` on, `left` of which exist, of rows that begin at w_row and are there or not, R x 1, as TYPE: in units as unit()
    says. EVEN_K: all columns exist of rows that are there."""
    ELEMENT: tl.constexpr = w_row.dtype.element_ty
    if ELEMENT == tl.uint8:
        at = tl.arange(0, BLOCK_K // 8)[None, :]
        words = w_row.to(tl.pointer_type(tl.int32)) + first // 8 + at
        word = tl.load(words, mask=there if EVEN_K else 8 * at < left, other=0)
        if PACKED == "e2m1":
            code = word[:, :, None] >> 4 * tl.arange(0, 8)[None, None, :] & 15
            return tl.reshape(value_of(code, PACKED), [word.shape[0], BLOCK_K]).to(TYPE)
        else:
            p0, p1, p2, p3 = plain_pairs(word, TYPE, PACKED == "int4")
            return in_order(p0, p1, p2, p3, TYPE)
    else:
        at = tl.arange(0, BLOCK_K)[None, :]
        w = tl.load(w_row + first + at, mask=there if EVEN_K else at < left, other=0.0)
        return plain_bytes(w, TYPE) if ELEMENT == tl.int8 else w.to(TYPE)


@triton.jit
def unit(ELEMENT: tl.constexpr, PACKED: tl.constexpr, TYPE: tl.constexpr):
    """What 1 is in plain_weights()."""
    if ELEMENT == tl.uint8 and PACKED == "uint4" and TYPE == tl.float16:
        return 5.9604644775390625e-08
    else:
        return 1.0
