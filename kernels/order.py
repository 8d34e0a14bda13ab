"""Rows in order, and the largest or smallest elements of rows.

Elements are compared as numbers; a NaN counts as larger than all others, and of equal elements the one that stands first
comes first. For that an element and its place become one integer, of 64 bits, or of 32 where rows of elements of 16 bits
are short.
"""

import triton
import triton.language as tl

from tiles import inside

NO_KEY = tl.constexpr(-0x8000000000000000)  # behind all keys
NO_SHORT_KEY = tl.constexpr(-0x80000000)  # likewise, of those of 32 bits
NO_RANK = tl.constexpr(-0x80000000)  # behind all ranks
MOST_PLACES = tl.constexpr(0x8000)  # of keys of 32 bits
MOST_ALONE = tl.constexpr(0x2000)  # elements that are sorted without places if these are not wanted
LEAST_WITH_PLACES = tl.constexpr(0x400)  # of 16 bits each, however: so equal ones go to different buckets
INFINITY = tl.constexpr(0x7F800000)  # bits of float32
NAN = tl.constexpr(0x7FC00000)  # likewise; the upper half is a NaN of float16 and of bfloat16
BY_BUCKETS = (1024, 8192)  # elements of rows that tl.sort puts into buckets


@triton.jit
def ranks_of(x, LARGEST: tl.constexpr):
    """Integers whose descending order is that of the elements: of the largest ones first, or of the smallest."""
    if x.dtype.primitive_bitwidth == 16:
        bits = x.to(tl.int16, bitcast=True).to(tl.int32)
        bits = tl.where(x == 0, 0, tl.where(x != x, 0x7FFF, bits))
        rank = bits ^ (bits >> 31 & 0x7FFF)
    else:
        bits = x.to(tl.int32, bitcast=True)
        bits = tl.where(x == 0, 0, tl.where(x != x, 0x7FFFFFFF, bits))
        rank = bits ^ (bits >> 31 & 0x7FFFFFFF)
    return rank if LARGEST else ~rank


@triton.jit
def elements_of(rank, ELEMENT: tl.constexpr, LARGEST: tl.constexpr):
    """What has these ranks, but for the sign of 0 and the bits of a NaN."""
    if not LARGEST:
        rank = ~rank
    if ELEMENT.primitive_bitwidth == 16:
        return (rank ^ (rank >> 31 & 0x7FFF)).to(tl.int16).to(ELEMENT, bitcast=True)
    else:
        return (rank ^ (rank >> 31 & 0x7FFFFFFF)).to(ELEMENT, bitcast=True)


@triton.jit
def no_key(KEY_BITS: tl.constexpr):
    return NO_SHORT_KEY if KEY_BITS == 32 else NO_KEY


@triton.jit
def keys_of(rank, place, KEY_BITS: tl.constexpr):
    """Likewise, where no two are equal; of 32 bits for ranks of 16 bits and places below 0x7FFF."""
    if KEY_BITS == 32:
        return rank << 16 | (0x7FFF - place)
    else:
        return rank.to(tl.int64) << 32 | (0x7FFFFFFF - place).to(tl.int64)


@triton.jit
def last_key(rank, KEY_BITS: tl.constexpr):
    """The least key of a rank."""
    return tl.maximum(rank, -0x8000) << 16 if KEY_BITS == 32 else rank.to(tl.int64) << 32


@triton.jit
def rank_of_keys(keys):
    return keys >> 16 if keys.dtype == tl.int32 else (keys >> 32).to(tl.int32)


@triton.jit
def place_of_keys(keys):
    return 0x7FFF - (keys & 0xFFFF) if keys.dtype == tl.int32 else 0x7FFFFFFF - (keys & 0xFFFFFFFF).to(tl.int32)


def key_bits(args):
    return 32 if args["x_ptr"].element_size() == 2 and args["cols"] < 0x7FFF else 64


# Elements of the rows at most of which a program takes several.
SHORT = 128
SHORT_OF_TOPK = 512


def tiles_of_short_rows():
    """ROWS and warps."""
    return [(rows, warps) for rows in [4, 8, 16, 32, 64, 128, 256, 512, 1024] for warps in [1, 4]]


def fits_short_rows(block, rows, warps):
    """Whether a thread has 4 to 16 elements of whole rows."""
    return 4 * 32 * warps <= rows * block and rows * block <= 16 * 32 * warps


@triton.jit
def rows_of_program(rows, ROWS: tl.constexpr):
    """The program's row, or several as a column, and which of them there are."""
    if ROWS > 1:
        row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS))[:, None]
        return row.to(tl.int64), row < rows
    else:
        return tl.program_id(0).to(tl.int64), True


@triton.jit
def load_keys(x_row, col, mask, LARGEST: tl.constexpr, KEY_BITS: tl.constexpr):
    """Keys of a row's elements; where the mask is false they come last."""
    x = tl.load(x_row + col, mask=mask, other=0.0)
    return tl.where(mask, keys_of(ranks_of(x, LARGEST), col, KEY_BITS), no_key(KEY_BITS))


@triton.jit
def store_keys(values_ptr, index_ptr, x_row, values_row, index_row, keys, mask, EXTENT: tl.constexpr,
               LARGEST: tl.constexpr):
    store_rows(values_ptr, index_ptr, x_row, values_row, index_row, rank_of_keys(keys), place_of_keys(keys), mask, EXTENT, LARGEST)


@triton.jit
def store_rows(values_ptr, index_ptr, x_row, values_row, index_row, rank, place, mask, EXTENT: tl.constexpr,
               LARGEST: tl.constexpr):
    """Elements in order, where the mask is true. Those whose rank does not say all are read again, before any is written, as it
    may be in place."""
    at = tl.arange(0, EXTENT)
    x = elements_of(rank, values_ptr.dtype.element_ty, LARGEST)
    again = mask & ((x == 0) | (x != x))
    if tl.max(again.to(tl.int32)) > 0:
        x = tl.where(again, tl.load(x_row + place, mask=again, other=0.0), x)
    tl.debug_barrier()
    store_elements(values_ptr, index_ptr, values_row + at, index_row + at, x, place, mask)


@triton.jit
def store_elements(values_ptr, index_ptr, values_at, index_at, x, place, mask):
    tl.store(values_ptr + values_at, x, mask=mask)
    if index_ptr is not None:
        tl.store(index_ptr + index_at, place.to(index_ptr.dtype.element_ty), mask=mask)


GREATEST_NUMBER = tl.constexpr(0xFF7FFFFF)  # of numbers_of()


@triton.jit
def numbers_of(x, DESCENDING: tl.constexpr):
    """Unsigned numbers in the order of elements of float32; of the zeros one, of all NaNs the greatest. They count from -infinity on."""
    bits = x.to(tl.int32, bitcast=True)
    sign = bits >> 31
    number = ((bits & 0x7FFFFFFF) ^ sign) - sign
    number = (tl.where(x != x, 0x7FFFFFFF, number) + INFINITY).to(tl.uint32, bitcast=True)
    return GREATEST_NUMBER - number if DESCENDING else number


@triton.jit
def elements_of_numbers(number, is_negative, DESCENDING: tl.constexpr):
    """What has these numbers; NaNs are one, but for their sign."""
    number = (GREATEST_NUMBER - number if DESCENDING else number).to(tl.int32, bitcast=True)
    bits = tl.abs(number - INFINITY) | is_negative.to(tl.int32, bitcast=True) << 31
    return bits.to(tl.float32, bitcast=True)


@triton.jit
def bits_of_half(x):
    return x.to(tl.int16, bitcast=True).to(tl.int32) << 16


@triton.jit
def bits_in_order(bits, DESCENDING: tl.constexpr):
    """Unsigned numbers in the order of elements with these bits, -0 ahead of 0."""
    number = bits ^ ((bits >> 31) | -0x80000000)
    return (~number if DESCENDING else number).to(tl.uint32, bitcast=True)


@triton.jit
def bits_of_number(number, DESCENDING: tl.constexpr):
    number = number.to(tl.int32, bitcast=True)
    number = ~number if DESCENDING else number
    return number ^ (~(number >> 31) | -0x80000000)


@triton.jit
def numbers_of_halves(x, DESCENDING: tl.constexpr, ZEROS_DIFFER: tl.constexpr = False):
    """The same of elements of 16 bits, in the upper bits of 32; that of -0 may stand before that of 0. By other operations than in
    numbers_of(), which for these take longer."""
    bits = tl.where(x != x, NAN, bits_of_half(x if ZEROS_DIFFER else x + 0.0))  # a sum of -0 and 0 is 0
    return bits_in_order(bits, DESCENDING) >> 16 << 16


@triton.jit
def halves_of_numbers(number, is_negative_zero, ELEMENT: tl.constexpr, DESCENDING: tl.constexpr):
    """What has these numbers; NaNs are one."""
    bits = bits_of_number(number, DESCENDING) ^ (is_negative_zero.to(tl.int32, bitcast=True) << 31)
    return (bits >> 16).to(tl.int16).to(ELEMENT, bitcast=True)


@triton.jit
def behind_the_end(col, cols, LAST: tl.constexpr, BLOCK: tl.constexpr):
    """Unsigned numbers above LAST for what stands behind the end of a row, as far apart as there is room: those close together would
    fill a bucket, few ones too, whose buckets reach over all of the room."""
    step = (0xFFFFFFFF - LAST) // (BLOCK - cols)
    return ((col - cols) * step).to(tl.uint32) + (LAST + 1)


@triton.jit
def digits_in_order(digit, number):
    """Digits of 15 bits at most, each above its number, in their order and of equal ones in that of the numbers, which are 0, 1, ... below
    2^16: as the lower halves are in order, tl.sort moves them by the bits of the digits alone."""
    return tl.sort(digit << 16 | number)


def sort_configs():
    found = [triton.Config({"ROWS": rows}, num_warps=warps) for rows, warps in tiles_of_short_rows()]
    for warps, limit in [(4, None), (8, None), (8, 96), (8, 80), (8, 64), (8, 48), (16, 64), (16, 40), (16, None), (4, 128),
                         (32, 32), (2, None), (1, None), (32, None)]:
        found.append(triton.Config({"ROWS": 1}, num_warps=warps, maxnreg=limit))
    return found


def fitting_sort(configs, named_args, **kwargs):
    """4 to 32 elements a thread, 8 at least where rows are sorted by buckets; fewer registers, for more programs at a time, where that is
    with places or 16 bits. Several rows where they are short."""
    block = triton.next_power_of_2(named_args["cols"])
    if block <= SHORT:
        return [c for c in configs if fits_short_rows(block, c.kwargs["ROWS"], c.num_warps)]
    configs = [c for c in configs if c.kwargs["ROWS"] == 1]
    by_buckets = BY_BUCKETS[0] <= block and block <= BY_BUCKETS[1]
    kept = [c for c in configs if (8 if by_buckets else 4) * 32 * c.num_warps <= block and block <= 32 * 32 * c.num_warps]
    limited = block >= 1024 and (named_args["index_ptr"] is not None or named_args["x_ptr"].element_size() == 2)
    kept = [c for c in kept if c.maxnreg is None or limited]
    return kept if len(kept) > 0 else configs[-2:-1]


def leaves_room_in_buckets(args):
    """Whether much of the tile stands behind the end of a row that is sorted by buckets."""
    return BY_BUCKETS[0] <= args["BLOCK"] <= BY_BUCKETS[1] and args["cols"] < args["BLOCK"]


@triton.autotune(configs=sort_configs(), key=["cols"], prune_configs_by={"early_config_prune": fitting_sort})
@triton.heuristics({"BLOCK": lambda args: triton.next_power_of_2(args["cols"]), "SPREAD": leaves_room_in_buckets,
                    "EVEN": lambda args: args["cols"] == args["BLOCK"] and args["ROWS"] == 1})
@triton.jit
def sort_rows(values_ptr, index_ptr, x_ptr, values_stride, index_stride, x_stride, rows, cols, DESCENDING: tl.constexpr,
              BLOCK: tl.constexpr, SPREAD: tl.constexpr, EVEN: tl.constexpr = False, ROWS: tl.constexpr = 1):
    """ROWS rows a program. Without an index the elements of shorter rows are sorted themselves: tl.sort has a NaN behind all numbers and
    makes all of them one, which is what stands behind the end of an ascending row. With SPREAD that is numbers of their own."""
    col = tl.arange(0, BLOCK)
    row, mask = rows_of_program(rows, ROWS)
    mask = mask & (col < cols) if ROWS > 1 else inside(col, cols, EVEN)
    values_at = row * values_stride + col
    index_at = row * index_stride + col
    x = tl.load(x_ptr + row * x_stride + col, mask=mask, other=float("-inf") if DESCENDING else float("nan"))
    if x.dtype.primitive_bitwidth == 16 and BLOCK <= MOST_PLACES and (index_ptr is not None or LEAST_WITH_PLACES <= BLOCK <= MOST_ALONE):
        # Places over all of the lower half: so keys of equal elements lie as far apart as others.
        ZEROS_DIFFER: tl.constexpr = index_ptr is None
        STEP: tl.constexpr = 2 * MOST_PLACES // BLOCK
        below = bits_of_half(x) == -0x80000000
        keys = numbers_of_halves(x, DESCENDING, ZEROS_DIFFER) | col.to(tl.uint32) * STEP
        keys = keys if ZEROS_DIFFER else keys | below.to(tl.uint32)
        if SPREAD:
            keys = tl.where(mask, keys, behind_the_end(col, cols, 0xFFC0FFFF, BLOCK))
        keys = tl.sort(keys)
        is_negative_zero = keys & (0 if ZEROS_DIFFER else 1)
        x = halves_of_numbers(keys >> 16 << 16, is_negative_zero, x.dtype, DESCENDING)
        store_elements(values_ptr, index_ptr, values_at, index_at, x, ((keys & 0xFFFF) // STEP).to(tl.int32), mask)
    elif index_ptr is None and SPREAD:
        x = x.to(tl.float32)
        keys = bits_in_order(tl.where(x != x, NAN, x.to(tl.int32, bitcast=True)), DESCENDING)
        keys = tl.sort(tl.where(mask, keys, behind_the_end(col, cols, 0xFFC00000, BLOCK)))
        x = bits_of_number(keys, DESCENDING).to(tl.float32, bitcast=True)
        tl.store(values_ptr + values_at, x.to(values_ptr.dtype.element_ty), mask=mask)
    elif index_ptr is None and BLOCK <= MOST_ALONE:
        tl.store(values_ptr + values_at, tl.sort(x, descending=DESCENDING), mask=mask)
    else:
        # What stands behind the end comes last, as its places do.
        x = x.to(tl.float32)
        is_negative = x.to(tl.int32, bitcast=True) < 0
        number = numbers_of(x, DESCENDING)
        if SPREAD:
            number = tl.where(mask, number, behind_the_end(col, cols, GREATEST_NUMBER, BLOCK))
        keys = tl.sort(number.to(tl.uint64) << 32 | col.to(tl.uint64) << 1 | is_negative.to(tl.uint64))
        x = elements_of_numbers((keys >> 32).to(tl.uint32), keys.to(tl.uint32) & 1, DESCENDING).to(values_ptr.dtype.element_ty)
        store_elements(values_ptr, index_ptr, values_at, index_at, x, (keys.to(tl.uint32) >> 1).to(tl.int32), mask)


# Elements that are wanted, at most, where the elements of a piece are selected before they are put in order.
MOST_SELECTED = 512
# Pieces of a row that may have a program each, where rows are fewer than multiprocessors.
MOST_PIECES = 16


def topk_configs():
    found = []
    for block in [2, 4, 8, 16, 32, 64, 128, 256, 512]:
        for rows, warps in [(2, 1), *tiles_of_short_rows()]:
            if fits_short_rows(block, rows, warps):
                short = {"BLOCK": block, "SELECT": False, "PROGRAMS": 8, "ROWS": rows}
                found.append(triton.Config(short, num_warps=warps))
    for block, warps in [(4096, 8), (4096, 16), (4096, 4), (2048, 4), (2048, 8), (2048, 2), (8192, 16), (1024, 4), (1024, 2), (1024, 1),
                         (512, 2), (256, 1), (64, 1)]:
        ordering = {"BLOCK": block, "SELECT": False, "PROGRAMS": 8, "ROWS": 1}
        found.append(triton.Config(ordering, num_warps=warps))
    for block, warps in [(16384, 4), (32768, 8), (8192, 4), (4096, 4), (2048, 4), (2048, 2), (1024, 2), (8192, 8), (16384, 8), (4096, 8),
                         (32768, 16), (16384, 16), (8192, 16)]:
        for programs in [0, 2, 4, 8]:
            selecting = {"BLOCK": block, "SELECT": True, "PROGRAMS": programs, "ROWS": 1}
            found.append(triton.Config(selecting, num_warps=warps))
    return found


def fitting_topk(configs, named_args, **kwargs):
    """Pieces that a row fills to more than a half, with twice as many elements as are wanted; to select from them, twice
    as many threads. Where a row is one piece, the number of its programs says nothing; where rows are few, each of a few pieces has a
    program. Several rows where they are short."""
    cols = named_args["cols"]
    k = named_args["k"]
    if cols <= SHORT_OF_TOPK:
        return [c for c in configs if c.kwargs["ROWS"] > 1 and c.kwargs["BLOCK"] == max(2, triton.next_power_of_2(cols))]
    configs = [c for c in configs if c.kwargs["ROWS"] == 1]
    wide = [c for c in configs if c.kwargs["BLOCK"] >= 2 * k or c.kwargs["BLOCK"] >= cols]
    wide = [c for c in wide if not c.kwargs["SELECT"] or k <= min(MOST_SELECTED, 16 * c.num_warps)]
    wide = [c for c in wide if not c.kwargs["SELECT"] or c.num_warps < 16 or k > 128]
    few_rows = named_args["rows_class"] == 0
    kept = []
    for config in wide:
        pieces = triton.cdiv(cols, config.kwargs["BLOCK"])
        has_all = config.kwargs["SELECT"] and few_rows and pieces <= MOST_PIECES
        programs = [8] if pieces == 1 else [0] if has_all else [2, 4, 8]
        if config.kwargs["BLOCK"] < 2 * cols and config.kwargs["PROGRAMS"] in programs:
            kept.append(config)
    return kept if len(kept) > 0 else [c for c in wide if not c.kwargs["SELECT"]][-1:]


def merged_at_once(args):
    """Keys of a row's programs that the last one takes at a time: two a thread, or all that there are, up to eight a thread."""
    kept = triton.next_power_of_2(args["k"])
    threads = 32 * args["num_warps"]
    keys = 2 * threads
    if args["SELECT"] and args["PROGRAMS"] == 0:
        left = triton.cdiv(args["cols"], args["BLOCK"]) * max(64, 2 * kept)
        keys = min(triton.next_power_of_2(left), 8 * threads)
    return max(2 * kept, keys)


@triton.jit
def merged(a, b, K: tl.constexpr):
    """The first K of two lists of K keys."""
    return tl.topk(tl.reshape(tl.join(a, b), [2 * K]), K)


@triton.jit
def greatest(a, b):
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def least(a, b):
    return tl.minimum(a, b)


@triton.jit
def first_in_room(room, filled, K: tl.constexpr, ROOM: tl.constexpr):
    """The first K of the keys that a program has put into its room; then the room may be filled again."""
    none: tl.constexpr = no_key(room.dtype.element_ty.primitive_bitwidth)
    tl.debug_barrier()
    if filled <= ROOM // 2:
        at = tl.arange(0, ROOM // 2)
        keys = tl.topk(tl.load(room + at, mask=at < filled, other=none), K)
    else:
        at = tl.arange(0, ROOM)
        keys = tl.topk(tl.load(room + at, mask=at < filled, other=none), K)
    tl.debug_barrier()
    return keys


@triton.jit
def add_keys(keys, room, filled, bar, K: tl.constexpr, ROOM: tl.constexpr):
    """Puts those of the keys that are not below `bar` behind the `filled` ones in the room; where it is too small, the first K of all.
    Returns how many are there then, and the bar for others: K keys are at least as great."""
    none: tl.constexpr = no_key(room.dtype.element_ty.primitive_bitwidth)
    taken = keys >= bar
    count = tl.sum(taken.to(tl.int32), axis=0)
    if filled + count <= ROOM:
        tl.store(room + filled + tl.cumsum(taken.to(tl.int32), axis=0) - 1, keys, mask=taken)
        filled += count
    else:
        best = tl.topk(tl.where(taken, keys, none), K)
        if filled > 0:
            best = merged(best, first_in_room(room, filled, K, ROOM), K)
        tl.store(room + tl.arange(0, K), best)
        filled += K - filled
        bar = tl.min(best, axis=0)
    return filled, bar


@triton.jit
def add_selected(x_row, start, cols, room, filled, bar, BLOCK: tl.constexpr, K: tl.constexpr, ROOM: tl.constexpr,
                 THREADS: tl.constexpr, WIDTH: tl.constexpr, LARGEST: tl.constexpr, EVEN: tl.constexpr):
    """add_keys() of a piece of a row. The best elements of groups of WIDTH, side by side, say which groups matter, and only those are
    looked at one by one: of the best elements of 2 K sets of groups the K-th is a bar for all. Groups that reach it are listed behind
    the room; more than the list has room for are all that there are, as where most elements are equal."""
    GROUPS: tl.constexpr = BLOCK // WIDTH
    LIST: tl.constexpr = ROOM // 2
    KEY_BITS: tl.constexpr = room.dtype.element_ty.primitive_bitwidth
    group = tl.arange(0, GROUPS // THREADS)[:, None] * THREADS + tl.arange(0, THREADS)[None, :]
    col = start + group[:, :, None] * WIDTH + tl.arange(0, WIDTH)[None, None, :]
    if EVEN:
        x = tl.load(x_row + col)
    else:
        x = tl.load(x_row + col, mask=col < cols, other=float("-inf") if LARGEST else float("nan"))
    best = tl.reduce(x.to(tl.float32), 2, greatest if LARGEST else least).to(x.dtype)
    is_there = inside(start + group * WIDTH, cols, EVEN)
    rank = tl.where(is_there, ranks_of(best, LARGEST), NO_RANK)
    sets = tl.max(tl.reshape(tl.max(rank, axis=0), [2 * K, THREADS // (2 * K)]), axis=1)
    bar = tl.maximum(bar, last_key(tl.min(tl.topk(sets, K), axis=0), KEY_BITS))
    taken = (is_there & (rank >= rank_of_keys(bar))).to(tl.int32)
    own = tl.sum(taken, axis=0)
    count = tl.sum(own, axis=0)
    is_listed = count <= ROOM
    if is_listed:
        number = tl.cumsum(taken, axis=0) + (tl.cumsum(own, axis=0) - own)[None, :]
        tl.store(room + ROOM + number - 1, group.to(room.dtype.element_ty), mask=taken > 0)
        tl.debug_barrier()
    else:
        count = GROUPS
    for first in range(0, count, LIST):
        at = first + tl.arange(0, LIST)
        chosen = at
        if is_listed:
            chosen = tl.load(room + ROOM + at, mask=at < count, other=GROUPS).to(tl.int32)
        place = start + chosen[:, None] * WIDTH + tl.arange(0, WIDTH)[None, :]
        keys = load_keys(x_row, place, (chosen < GROUPS)[:, None] & (place < cols), LARGEST, KEY_BITS)
        filled, bar = add_keys(tl.reshape(keys, [LIST * WIDTH]), room, filled, bar, K, ROOM)
    return filled, bar


@triton.jit
def short_rows(values_ptr, index_ptr, x_ptr, values_stride, index_stride, x_stride, rows, cols, k, LARGEST: tl.constexpr,
               BLOCK: tl.constexpr, K: tl.constexpr, ROWS: tl.constexpr, KEY_BITS: tl.constexpr):
    row, is_row = rows_of_program(rows, ROWS)
    x_row = x_ptr + row * x_stride
    col = tl.arange(0, BLOCK)
    mask = is_row & (col < cols)
    x = tl.load(x_row + col, mask=mask, other=0.0)
    keys = tl.topk(tl.where(mask, keys_of(ranks_of(x, LARGEST), col, KEY_BITS), no_key(KEY_BITS)), K)
    wanted = is_row & (tl.arange(0, K) < k)
    store_keys(values_ptr, index_ptr, x_row, row * values_stride, row * index_stride, keys, wanted, K, LARGEST)


@triton.jit
def one_row(values_ptr, index_ptr, x_ptr, values_stride, index_stride, x_stride, row, parts, cols, k, partials_ptr,
            counters_ptr, LARGEST: tl.constexpr, BLOCK: tl.constexpr, SELECT: tl.constexpr, K: tl.constexpr, ROOM: tl.constexpr,
            LISTS: tl.constexpr, THREADS: tl.constexpr, WIDTH: tl.constexpr, SINGLE: tl.constexpr, EVEN: tl.constexpr,
            KEY_BITS: tl.constexpr):
    """A program's part of a row, of SINGLE one piece. Where a row has several parts, each leaves its keys, the first K of its part among
    them, and the last one finds those of the row."""
    KEY: tl.constexpr = tl.int32 if KEY_BITS == 32 else tl.int64
    SLOTS: tl.constexpr = ROOM // 2 if SELECT else K
    STEP: tl.constexpr = 2 * ROOM if SELECT else K
    none: tl.constexpr = no_key(KEY_BITS)
    memory = partials_ptr.to(tl.pointer_type(KEY))
    room = memory + tl.program_id(0) * STEP
    at = tl.arange(0, K)
    part = tl.program_id(0) % parts
    x_row = x_ptr + row.to(tl.int64) * x_stride
    values_row = row.to(tl.int64) * values_stride
    index_row = row.to(tl.int64) * index_stride
    filled = 0
    best = tl.full([K], none, KEY)
    if SELECT:
        bar = tl.full([], none + 1, KEY)
        if SINGLE:
            filled, bar = add_selected(x_row, part * BLOCK, cols, room, filled, bar, BLOCK, K, ROOM, THREADS, WIDTH, LARGEST, EVEN)
        else:
            for start in tl.range(part * BLOCK, cols, parts * BLOCK):
                filled, bar = add_selected(x_row, start, cols, room, filled, bar, BLOCK, K, ROOM, THREADS, WIDTH, LARGEST, EVEN)
        if parts == 1 or filled > SLOTS:
            best = first_in_room(room, filled, K, ROOM)
    else:
        for start in tl.range(part * BLOCK, cols, parts * BLOCK):
            col = start + tl.arange(0, BLOCK)
            found = tl.topk(load_keys(x_row, col, col < cols, LARGEST, KEY_BITS), K)
            if start == part * BLOCK:
                best = found
            else:
                best = merged(best, found, K)
    if parts == 1:
        store_keys(values_ptr, index_ptr, x_row, values_row, index_row, best, at < k, K, LARGEST)
    else:
        if SELECT:
            if filled > SLOTS:
                tl.store(room + at, best)
                filled = K
            slot = tl.arange(0, SLOTS)
            tl.store(room + slot, tl.full([SLOTS], none, KEY), mask=slot >= filled)
        else:
            tl.store(room + at, best)
        tl.debug_barrier()
        if tl.atomic_add(counters_ptr + row, 1) == parts - 1:
            rooms = memory + row.to(tl.int64) * parts * STEP
            for first in tl.range(0, parts * SLOTS, LISTS):
                number = first + tl.arange(0, LISTS)
                place = number // SLOTS * STEP + number % SLOTS
                more = tl.load(rooms + place, mask=number < parts * SLOTS, other=none, cache_modifier=".cg")
                found = tl.topk(more, K)
                if first == 0:
                    best = found  # its own keys are among those that are loaded: none is kept twice
                else:
                    best = merged(best, found, K)
            store_keys(values_ptr, index_ptr, x_row, values_row, index_row, best, at < k, K, LARGEST)
            tl.store(counters_ptr + row, 0)


@triton.autotune(configs=topk_configs(), key=["cols", "k", "rows_class"], prune_configs_by={"early_config_prune": fitting_topk})
@triton.heuristics({
    "K": lambda args: triton.next_power_of_2(args["k"]),
    "ROOM": lambda args: 4 * max(32, triton.next_power_of_2(args["k"])) if args["SELECT"] else 0,
    "LISTS": lambda args: merged_at_once(args),
    "THREADS": lambda args: 32 * args["num_warps"],
    "WIDTH": lambda args: 16 // args["x_ptr"].element_size(),
    "KEY_BITS": key_bits,
    "EVEN": lambda args: args["cols"] % args["BLOCK"] == 0,
    "SINGLE": lambda args: args["PROGRAMS"] == 0 or args["cols"] <= args["BLOCK"],
})
@triton.jit
def topk_rows(values_ptr, index_ptr, x_ptr, values_stride, index_stride, x_stride, rows, cols, k, rows_class, partials_ptr,
              counters_ptr, LARGEST: tl.constexpr, BLOCK: tl.constexpr, SELECT: tl.constexpr, K: tl.constexpr,
              ROOM: tl.constexpr, LISTS: tl.constexpr, THREADS: tl.constexpr, WIDTH: tl.constexpr,
              PROGRAMS: tl.constexpr, ROWS: tl.constexpr = 1, KEY_BITS: tl.constexpr = 64, SINGLE: tl.constexpr = False,
              EVEN: tl.constexpr = False):
    """The k first ones of each row in order. Of short rows a program takes ROWS. Of others the programs of a row (PROGRAMS a
    multiprocessor at most, 0: as many as there are pieces) take every n-th piece of BLOCK elements; where they are several, each
    leaves its keys, and the last one merges them and sets the row's counter back. Programs that have one piece alone (SINGLE), or
    one row, do without loops, for which compilers would compute ahead what each step needs and keep it in registers."""
    if ROWS > 1:
        short_rows(values_ptr, index_ptr, x_ptr, values_stride, index_stride, x_stride, rows, cols, k, LARGEST, BLOCK, K, ROWS, KEY_BITS)
    else:
        parts = tl.maximum(tl.num_programs(0) // rows, 1)
        one_row(values_ptr, index_ptr, x_ptr, values_stride, index_stride, x_stride, tl.program_id(0) // parts, parts, cols, k,
                partials_ptr, counters_ptr, LARGEST, BLOCK, SELECT, K, ROOM, LISTS, THREADS, WIDTH, SINGLE, EVEN, KEY_BITS)
