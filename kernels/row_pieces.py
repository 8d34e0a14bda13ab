"""Pieces of few wide rows that have programs of their own, which tell each other numbers of them.

Programs that wait for those before them alone take pieces in the order in which they begin, so that nobody waits for a program that
has not begun (told()). Others keep a piece in registers until the numbers of all of the row's pieces are there (told_of_row()). Of a
row whose programs have not all begun they wait for a moment only, then leave their piece to the last program of the launch. Or each piece
has two programs: those that begin first tell its numbers, of which the last one of a row makes those of the row, the others wait for these.

counters: programs that have begun (of those that take pieces in this order), programs that need no numbers any more, then a word for
each number; zero before and after each launch. Where pieces are kept, the words of a row are NUMBERS of each piece, one each that says
whether the piece is left, and how many of the row's programs have begun.
"""

import triton
import triton.language as tl

# Words that programs exchange through memory, at most.
MOST_WORDS = 16382
# Where a piece has up to MOST_NUMBERS of them: pieces of all rows together. (launch_rules.cpp has the like.)
MOST_NUMBERS = 5
MOST_PIECES = MOST_WORDS // (MOST_NUMBERS + 2)
ROWS_OF_CLASS = 4  # the rows of launches that tuning does not tell apart differ by this factor at most
# Elements that a row of a tile may have before its first column, at most.
MOST_BEFORE = 15
# How often a program looks for numbers of programs that have not begun.
PATIENCE = tl.constexpr(256)
TOLD = tl.constexpr(1 << 32)
LEFT = tl.constexpr(0x10000)  # in the counter of programs that have ended: one that left its piece

# Warps, elements of a piece that a program keeps in registers, and registers a thread at most.
KEPT_PIECES = [(4, 2048, None), (4, 4096, None), (8, 4096, None), (8, 8192, None), (8, 8192, 80), (16, 8192, None), (16, 16384, None),
               (32, 16384, None), (32, 24576, None), (16, 24576, None), (8, 24576, None), (16, 30720, None)]
LEAST_COLS = 32768
# Warps, elements and registers a thread at most of a piece that programs read twice.
READ_TWICE = [(4, 4096, None), (8, 8192, None), (8, 8192, 64), (16, 16384, 64)]
LEAST_READ_TWICE = 128  # pieces of all rows
MOST_READ_TWICE = 5000  # with words for three numbers each (launch_rules.cpp has the same)
PROCESSORS = 132
LEAST_OF_GROUP = 256  # pieces of a group, at least: each thread looks for other ones (launch_rules.cpp has the same)


def room_for(pieces, args):
    """LIST, room for the numbers of so many pieces: each thread looks for other ones, so that all agree on which are there."""
    return max(triton.next_power_of_2(pieces), 32 * args["num_warps"])


def pieces_of_row(cols, piece):
    """At most: the tile's row may begin before the first column."""
    return triton.cdiv(cols + MOST_BEFORE, piece)


def kept_pieces(args):
    """LIST, room for the pieces of a row, if each of them has a program of its own that keeps it, or (STAGES 0) two; else 0."""
    pieces = pieces_of_row(args["cols"], max(args["PIECE"], 1))
    most = MOST_READ_TWICE if args.get("STAGES") == 0 else MOST_PIECES
    return room_for(pieces, args) if args["ROWS"] == 0 and args["rows"] * pieces <= most else 0


def shared_configs():
    """Those of a kernel with ROWS, STAGES, PIECE and EVICTION."""
    found = []
    for warps, piece, limit in KEPT_PIECES:
        values = {"ROWS": 0, "STAGES": 2, "PIECE": piece, "EVICTION": ""}
        found.append(triton.Config(values, num_warps=warps, maxnreg=limit))
    return found


def read_twice_configs():
    """Likewise of rows that the registers of all programs do not hold: STAGES 0."""
    return [triton.Config({"ROWS": 0, "STAGES": 0, "PIECE": piece, "EVICTION": ""}, num_warps=warps, maxnreg=limit) for warps, piece, limit in READ_TWICE]


def keeps_pieces(config, named_args):
    """Whether a configuration may have the rows of a launch shared so: few wide ones, of 4 to 1024 pieces; with words for all
    rows that a launch of the class may have."""
    if named_args.get("counters_ptr") is None or named_args["rows_class"] > 0 or named_args["cols"] < LEAST_COLS:
        return False
    pieces = pieces_of_row(named_args["cols"], config.kwargs["PIECE"])
    return 4 <= pieces <= 1024 and ROWS_OF_CLASS * named_args["rows"] * pieces <= MOST_PIECES


def reads_twice(config, named_args):
    """Whether it may have pieces read twice, by programs that are many more than run at a time; with words for all rows that a launch of
    the class may have."""
    if named_args.get("counters_ptr") is None or named_args["rows_class"] > 0:
        return False
    pieces = pieces_of_row(named_args["cols"], config.kwargs["PIECE"])
    most_rows = PROCESSORS // 4**-named_args["rows_class"]
    return LEAST_READ_TWICE <= named_args["rows"] * pieces and max(named_args["rows"], most_rows) * pieces <= MOST_READ_TWICE


def words_of_number(element):
    """int32 words that a number of the type takes: a floating-point one is told as fp32, the others by 64 bits for each half of 32."""
    return 1 if element.is_floating() else element.primitive_bitwidth // 16


def list_of_pieces(element, rows, cols, piece, warps):
    """LIST, the pieces of a group, if each piece of the rows may have a program of its own that tells the others a number; else 0, as words
    are too few."""
    group = max(LEAST_OF_GROUP, 32 * warps)
    pieces = triton.cdiv(cols, piece)
    numbers = rows * (pieces + triton.cdiv(pieces, group))
    return group if words_of_number(element) * numbers <= MOST_WORDS else 0


@triton.jit
def tell(counters_ptr, place, number, SEM: tl.constexpr = "relaxed"):
    """A word is 0 until it is told: the fp32 number 0 is told as the one below 0, of others each half with a bit above it."""
    if number.dtype.is_floating():
        bits = number.to(tl.int32, bitcast=True)
        tl.atomic_xchg(counters_ptr + 2 + place, tl.where(bits == 0, -0x80000000, bits), sem=SEM)
    else:
        HALVES: tl.constexpr = number.dtype.primitive_bitwidth // 32
        words_ptr = (counters_ptr + 2).to(tl.pointer_type(tl.int64)) + place * HALVES
        for half in tl.static_range(HALVES):
            bits = (number >> (32 * half)).to(tl.int64) & 0xFFFFFFFF
            tl.atomic_xchg(words_ptr + half, bits | TOLD, sem=SEM)


@triton.jit
def load_words(counters_ptr, first, count, LIST: tl.constexpr):
    """Words from place `first` on; -1 behind them."""
    at = tl.arange(0, LIST)
    return tl.load(counters_ptr + 2 + first + at, mask=at < count, other=-1, volatile=True)


@triton.jit
def load_numbers(counters_ptr, first, count, none, LIST: tl.constexpr):
    """`count` numbers of the type of `none` from place `first` on, `none` behind them, and which of them are not told."""
    at = tl.arange(0, LIST)
    if none.dtype.is_floating():
        words = load_words(counters_ptr, first, count, LIST)
        return tl.where(at < count, words.to(tl.float32, bitcast=True), none), words == 0
    else:
        HALVES: tl.constexpr = none.dtype.primitive_bitwidth // 32
        words_ptr = (counters_ptr + 2).to(tl.pointer_type(tl.int64)) + (first + at) * HALVES
        low = tl.load(words_ptr, mask=at < count, other=-1, volatile=True)
        missing = low == 0
        number = low & 0xFFFFFFFF
        if HALVES == 2:
            high = tl.load(words_ptr + 1, mask=at < count, other=-1, volatile=True)
            missing = missing | (high == 0)
            number = number | (high << 32)
        return tl.where(at < count, number.to(none.dtype), none), missing


@triton.jit
def told(counters_ptr, first, count, first_group, groups, none, LIST: tl.constexpr):
    """Two lists of numbers when all of them are told, `none` behind them: `count` from place `first` on, `groups` from `first_group` on."""
    of_pieces, missing = load_numbers(counters_ptr, first, count, none, LIST)
    of_groups, missing_groups = load_numbers(counters_ptr, first_group, groups, none, LIST)
    while tl.max((missing | missing_groups).to(tl.int32), axis=0) > 0:
        of_pieces, missing = load_numbers(counters_ptr, first, count, none, LIST)
        of_groups, missing_groups = load_numbers(counters_ptr, first_group, groups, none, LIST)
    return of_pieces, of_groups


@triton.jit
def end_of_program(counters_ptr, programs, words):
    """The last one of the programs that were told something sets all back."""
    if tl.atomic_add(counters_ptr + 1, 1) == programs - 1:
        clear_words(counters_ptr, words)


@triton.jit
def clear_words(counters_ptr, words):
    """Atomically, as programs end without a release: each has seen its own words told, so that nothing of it comes later. Two words at
    a time, by an operation whose result nothing waits for; where they are odd, a zero behind them too."""
    pairs_ptr = counters_ptr.to(tl.pointer_type(tl.int64))
    pairs = (words + 3) // 2
    for first in range(0, pairs, 512):
        at = first + tl.arange(0, 512)
        tl.atomic_and(pairs_ptr + at, tl.zeros([512], tl.int64), mask=at < pairs, sem="relaxed")


@triton.jit
def words_of(row, pieces, NUMBERS: tl.constexpr):
    """Where those of a row begin."""
    return row * ((NUMBERS + 1) * pieces + 1)


@triton.jit
def begin_row(counters_ptr, row, pieces, NUMBERS: tl.constexpr):
    tl.atomic_add(counters_ptr + 2 + words_of(row, pieces, NUMBERS) + (NUMBERS + 1) * pieces, 1, sem="relaxed")


@triton.jit
def begin_piece(counters_ptr, pieces, NUMBERS: tl.constexpr):
    """The program's row, and which of its pieces."""
    row = tl.program_id(0) // pieces
    begin_row(counters_ptr, row, pieces, NUMBERS)
    return row, tl.program_id(0) % pieces


@triton.jit
def tell_piece(counters_ptr, row, piece, pieces, a, b, c, d, e, NUMBERS: tl.constexpr):
    """NUMBERS of these."""
    first = words_of(row, pieces, NUMBERS) + piece
    tell(counters_ptr, first, a)
    if NUMBERS > 1:
        tell(counters_ptr, first + pieces, b)
    if NUMBERS > 2:
        tell(counters_ptr, first + 2 * pieces, c)
    if NUMBERS > 3:
        tell(counters_ptr, first + 3 * pieces, d)
    if NUMBERS > 4:
        tell(counters_ptr, first + 4 * pieces, e)


@triton.jit
def look(counters_ptr, row, pieces, NUMBERS: tl.constexpr, LIST: tl.constexpr):
    """A row's numbers as words, and the same for all threads: 0 if all are told, 2 if not all of the row's programs have begun, else 1.
    (The word that says it is set back by a program that ends behind all that have seen it.)"""
    first = words_of(row, pieces, NUMBERS)
    a = load_words(counters_ptr, first, pieces, LIST)
    b = a
    c = a
    d = a
    e = a
    if NUMBERS > 1:
        b = load_words(counters_ptr, first + pieces, pieces, LIST)
    if NUMBERS > 2:
        c = load_words(counters_ptr, first + 2 * pieces, pieces, LIST)
    if NUMBERS > 3:
        d = load_words(counters_ptr, first + 3 * pieces, pieces, LIST)
    if NUMBERS > 4:
        e = load_words(counters_ptr, first + 4 * pieces, pieces, LIST)
    begun = tl.load(counters_ptr + 2 + first + (NUMBERS + 1) * pieces, volatile=True)
    missing = (a == 0) | (b == 0) | (c == 0) | (d == 0) | (e == 0)
    return a, b, c, d, e, tl.max(tl.where(begun < pieces, 2, missing.to(tl.int32)), axis=0)


@triton.jit
def told_of_row(counters_ptr, row, pieces, NUMBERS: tl.constexpr, LIST: tl.constexpr):
    """Whether all of a row's numbers are told, and they (a NaN behind them)."""
    a, b, c, d, e, missing = look(counters_ptr, row, pieces, NUMBERS, LIST)
    looked = 0
    while (missing > 0) & (looked < PATIENCE):
        looked += missing - 1
        a, b, c, d, e, missing = look(counters_ptr, row, pieces, NUMBERS, LIST)
    a = a.to(tl.float32, bitcast=True)
    b = b.to(tl.float32, bitcast=True)
    c = c.to(tl.float32, bitcast=True)
    d = d.to(tl.float32, bitcast=True)
    e = e.to(tl.float32, bitcast=True)
    return missing == 0, a, b, c, d, e


@triton.jit
def end_of_piece(counters_ptr, row, piece, pieces, done, NUMBERS: tl.constexpr):
    """Says that the program needs no numbers any more. 0, or for the last program: how many pieces are left, and one more; it has to
    finish these, then to set_back()."""
    if done:
        ended = tl.atomic_add(counters_ptr + 1, 1, sem="relaxed") + 1
    else:
        tl.atomic_xchg(counters_ptr + 2 + words_of(row, pieces, NUMBERS) + NUMBERS * pieces + piece, 1, sem="relaxed")
        ended = tl.atomic_add(counters_ptr + 1, 1 + LEFT) + 1 + LEFT
    if (ended > LEFT) & (ended % LEFT == tl.num_programs(0)):
        tl.atomic_add(counters_ptr + 1, 0, sem="acquire")  # what others left
    return tl.where(ended % LEFT == tl.num_programs(0), ended // LEFT + 1, 0)


@triton.jit
def set_back(counters_ptr, rows, pieces, NUMBERS: tl.constexpr):
    """To zero, for the next launch."""
    clear_words(counters_ptr, words_of(rows, pieces, NUMBERS))


@triton.jit
def is_left(counters_ptr, row, piece, pieces, NUMBERS: tl.constexpr):
    return tl.load(counters_ptr + 2 + words_of(row, pieces, NUMBERS) + NUMBERS * pieces + piece, volatile=True) > 0


@triton.jit
def words_read_twice(row, pieces, NUMBERS: tl.constexpr):
    """Where those of a row begin whose pieces are read twice: NUMBERS of each piece, how many pieces have told theirs, and NUMBERS of all."""
    return row * (NUMBERS * (pieces + 1) + 1)


@triton.jit
def tell_numbers(counters_ptr, first, step, a, b, c, NUMBERS: tl.constexpr, SEM: tl.constexpr = "relaxed"):
    tell(counters_ptr, first, a, SEM)
    if NUMBERS > 1:
        tell(counters_ptr, first + step, b, SEM)
    if NUMBERS > 2:
        tell(counters_ptr, first + 2 * step, c, SEM)


@triton.jit
def is_last_piece(counters_ptr, row, piece, pieces, a, b, c, NUMBERS: tl.constexpr):
    """Tells a piece's numbers. Whether those of all of the row's pieces are told."""
    first = words_read_twice(row, pieces, NUMBERS)
    tell_numbers(counters_ptr, first + piece, pieces, a, b, c, NUMBERS)
    return tl.atomic_add(counters_ptr + 2 + first + NUMBERS * pieces, 1) == pieces - 1


@triton.jit
def numbers_of_pieces(counters_ptr, row, pieces, NUMBERS: tl.constexpr, LIST: tl.constexpr):
    """Of all pieces of a row, for the program of the last one."""
    first = words_read_twice(row, pieces, NUMBERS)
    a = load_words(counters_ptr, first, pieces, LIST).to(tl.float32, bitcast=True)
    b = a
    c = a
    if NUMBERS > 1:
        b = load_words(counters_ptr, first + pieces, pieces, LIST).to(tl.float32, bitcast=True)
    if NUMBERS > 2:
        c = load_words(counters_ptr, first + 2 * pieces, pieces, LIST).to(tl.float32, bitcast=True)
    return a, b, c


@triton.jit
def tell_row(counters_ptr, row, pieces, a, b, c, NUMBERS: tl.constexpr):
    """To those who may write where others have read by then."""
    tell_numbers(counters_ptr, words_read_twice(row, pieces, NUMBERS) + NUMBERS * pieces + 1, 1, a, b, c, NUMBERS, "release")


@triton.jit
def number_of_row(counters_ptr, row, pieces, number: tl.constexpr, NUMBERS: tl.constexpr):
    """When it is told."""
    at = counters_ptr + 2 + words_read_twice(row, pieces, NUMBERS) + NUMBERS * pieces + 1 + number
    word = tl.load(at, volatile=True)
    while word == 0:
        word = tl.load(at, volatile=True)
    return word.to(tl.float32, bitcast=True)
