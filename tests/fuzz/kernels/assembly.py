"""Inline assembly of random kernels: texts, and what each computes of tiles. A text stands for one function here, by
which the reference knows it."""

import numpy as np

from element_types import BY_NAME, Undecided
from values import Tile


def words(function, given="int32"):
    """A function of words as one of tiles; numbers among the arguments are values of the text."""

    def apply(*arguments):
        kind = np.dtype(given)
        result = function(*(a if isinstance(a, int) else a.value.astype(kind) for a in arguments))
        if isinstance(result, tuple):
            return tuple(Tile(BY_NAME[given], r.astype(kind)) for r in result)
        return Tile(BY_NAME[given], result.astype(kind))

    return apply


def negated(x):
    return Tile(x.type, -x.value, x.slack)


def wide_sum(x, y, z):
    return Tile(BY_NAME["int64"], x.value.astype(np.int64) * y.value + z.value)


def majority(table):
    """lop3: for each bit the bit of the table that those of x, y and z are the number of."""

    def apply(x, y, z):
        result = x & 0
        for i in range(8):
            if table >> i & 1:
                result = result | ((x if i & 4 else ~x) & (y if i & 2 else ~y) & (z if i & 1 else ~z))
        return result

    return apply


def prefix_halves(x, y):
    """prmt with 0x5410: the lower half of x, and above it that of y."""
    return (x & 0xffff) | (y << 16)


def at(offset, keep=None):
    """What an array holds `offset` elements on; 7 where `keep` of the other argument does not hold."""

    def apply(pointer, *others):
        import reference
        mask = keep and Tile(BY_NAME["int1"], keep(others[0].value))
        return reference.load(pointer + offset, mask=mask, other=7)

    return apply


# Of each: the text, its constraints, the types of its arguments (a number: a value known at compile time; "*": an address
# of int32), of its results, elements a block, and what it computes. Each text is of one kind only.
I, L = "int32", "int64"
FORMS = [
    ("add.u32 $0, $1, $2;", "=r,r,r", [I, I], [I], 1, words(lambda x, y: x + y)),
    ("{ .reg .b32 t; mul.lo.s32 t, $1, $2; add.s32 $0, t, $1; }", "=r,r,r", [I, I], [I], 1, words(lambda x, y: x * y + x)),
    ("lop3.b32 $0, $1, $2, $3, 0xE8;", "=r,r,r,r", [I, I, I], [I], 1, words(majority(0xE8))),
    ("lop3.b32 ${0}, $1, ${2}, $3, $4;", "=r,r,r,r,n", [I, I, I, 150], [I], 1, words(lambda x, y, z, _: x ^ y ^ z)),
    ("{ .reg .pred p; setp.lt.s32 p, $1, $2; selp.b32 $0, $1, $2, p; }", "=r,r,r", [I, I], [I], 1, words(np.minimum)),
    ("add.s32 $0, $1, 5;", "=r,0", [I], [I], 1, words(lambda x: x + 5)),
    ("{ .reg .pred p; setp.ne.s32 p, $1, 0; mov.b32 $0, $2; @p add.s32 $0, $1, $2; }", "=&r,r,r", [I, I], [I], 1,
     words(lambda x, y: np.where(x != 0, x + y, y))),
    ("{ add.s32 $0, $2, $3; sub.s32 $1, $2, $3; }", "=&r,=&r,r,r", [I, I], [I, I], 1, words(lambda x, y: (x + y, x - y))),
    ("bfe.u32 $0, $1, 3, 7;", "=r,r", [I], [I], 1, words(lambda x: x >> 3 & 127)),
    ("prmt.b32 $0, $1, $2, 0x5410;", "=r,r,r", [I, I], [I], 1, words(prefix_halves)),
    ("{ add.s32 $0, $2, $4; xor.b32 $1, $3, $5; xor.b32 $1, $1, $3; add.s32 $1, $1, $3; }", "=&r,=&r,r,r,r,r", [I, I], [I], 2,
     words(lambda x, y: x + y)),
    ("add.s64 $0, $1, $2;", "=l,l,l", [L, L], [L], 1, words(lambda x, y: x + y, L)),
    ("mad.wide.s32 $0, $1, $2, $3;", "=l,r,r,l", [I, I, L], [L], 1, wide_sum),
    ("xor.b32 $0, $1, $2;", "=r,r,r", ["int8", "int8"], ["int8"], 4, words(lambda x, y: x ^ y, "int8")),
    ("and.b32 $0, $1, $2;", "=r,r,r", ["int16", "int16"], ["int16"], 2, words(lambda x, y: x & y, "int16")),
    ("sub.s16 $0, $1, $2;", "=h,h,h", ["int16", "int16"], ["int16"], 1, words(lambda x, y: x - y, "int16")),
    ("xor.b32 $0, $1, 0x80008000;", "=r,r", ["float16"], ["float16"], 2, negated),
    ("xor.b32 $0, $1, 0x80000000;", "=r,f", ["float32"], ["float32"], 1, negated),
    ("ld.global.b32 $0, [$1];", "=r,l", ["*"], [I], 1, at(0)),
    ("ld.global.b32 $0, [$1+12];", "=r,l", ["*"], [I], 1, at(3)),
    ("ld.global.b32 $0, [${1}];", "=r,l", ["*"], [I], 1, at(0)),
    ("ld.global.b32 ${0}, [ ${1} + 8 ];", "=r,l", ["*"], [I], 1, at(2)),
    ("{ .reg .b64 a; add.s64 a, $1, 4; ld.global.b32 $0, [a]; }", "=r,l", ["*"], [I], 1, at(1)),
    ("{ .reg .b32 t; ld.global.b32 t, [$1]; ld.global.b32 $0, [$1+4]; add.s32 $0, $0, t; }", "=&r,l", ["*"], [I], 1,
     lambda p: at(0)(p) + at(1)(p)),
    ("{ .reg .pred p; setp.gt.s32 p, $2, 0; mov.b32 $0, 7; @p ld.global.b32 $0, [$1]; }", "=&r,l,r", ["*", I], [I], 1,
     at(0, lambda x: x > 0)),
]
COMPUTED = {form[0]: form[-1] for form in FORMS}
MOST_OFFSET = 3  # of elements that a text loads behind its address


def inline_asm_elementwise(asm, constraints, args, dtype, is_pure, pack):
    arguments = []
    for a in args:
        if isinstance(a, Tile) and not a.exact and a.type.bits != 16:
            raise Undecided("assembly of numbers within bounds")
        arguments.append(a)
    return COMPUTED[asm](*arguments)



