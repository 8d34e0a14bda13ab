"""Rows in order, and the largest or smallest elements of rows.

Elements are compared as numbers; a NaN counts as larger than all others, and of equal elements the one that stands first
comes first. For that an element and its place become one integer, of 64 bits, or of 32 where rows of elements of 16 bits
are short.
"""

import triton
import triton.language as tl

NO_KEY = tl.constexpr(-0x8000000000000000)  # behind all keys
NO_SHORT_KEY = tl.constexpr(-0x80000000)  # likewise, of those of 32 bits
NO_RANK = tl.constexpr(-0x80000000)  # behind all ranks
MOST_PLACES = tl.constexpr(0x8000)  # of keys of 32 bits
MOST_ALONE = tl.constexpr(0x2000)  # elements that are sorted without places if these are not wanted


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
def load_keys(x_row, start, cols, BLOCK: tl.constexpr, LARGEST: tl.constexpr, KEY_BITS: tl.constexpr):
    """Keys of a piece of a row; what lies behind its end comes last."""
    col = start + tl.arange(0, BLOCK)
    x = tl.load(x_row + col, mask=col < cols, other=0.0)
    return tl.where(col < cols, keys_of(ranks_of(x, LARGEST), col, KEY_BITS), no_key(KEY_BITS))


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


@triton.jit
def bits_of(x):
    if x.dtype.primitive_bitwidth == 16:
        return x.to(tl.int16, bitcast=True).to(tl.int32) << 16
    else:
        return x.to(tl.int32, bitcast=True)


@triton.jit
def numbers_of(x, DESCENDING: tl.constexpr):
    """Unsigned numbers in the order of the elements, in the upper bits of 32; of the zeros one, of all NaNs the greatest."""
    bits = tl.where(x != x, 0x7FFFFFFF, bits_of(x + 0.0))  # a -0 becomes 0
    number = bits ^ ((bits >> 31) | -0x80000000)
    return (~number if DESCENDING else number).to(tl.uint32, bitcast=True)


@triton.jit
def elements_of_numbers(number, is_negative, ELEMENT: tl.constexpr, DESCENDING: tl.constexpr):
    """What has these numbers; NaNs are one, and of the zeros those below 0 are told by a bit."""
    number = number.to(tl.int32, bitcast=True)
    number = ~number if DESCENDING else number
    bits = number ^ (~(number >> 31) | -0x80000000) ^ (is_negative.to(tl.int32, bitcast=True) << 31)
    if ELEMENT.primitive_bitwidth == 16:
        return (bits >> 16).to(tl.int16).to(ELEMENT, bitcast=True)
    else:
        return bits.to(ELEMENT, bitcast=True)


def sort_configs():
    found = [triton.Config({"ROWS": rows}, num_warps=warps) for rows, warps in tiles_of_short_rows()]
    for warps, limit in [(4, None), (8, None), (8, 96), (8, 80), (8, 64), (8, 48), (16, 64), (16, 40), (16, None), (4, 128),
                         (32, 32), (2, None), (1, None), (32, None)]:
        found.append(triton.Config({"ROWS": 1}, num_warps=warps, maxnreg=limit))
    return found


def fitting_sort(configs, named_args, **kwargs):
    """4 to 32 elements a thread, 8 at least where rows are sorted by buckets; fewer registers, for more programs at a time, where that is
    with places or by digits. Several rows where they are short."""
    block = triton.next_power_of_2(named_args["cols"])
    if block <= SHORT:
        return [c for c in configs if fits_short_rows(block, c.kwargs["ROWS"], c.num_warps)]
    configs = [c for c in configs if c.kwargs["ROWS"] == 1]
    by_buckets = 1024 <= block and block <= 8192
    kept = [c for c in configs if (8 if by_buckets else 4) * 32 * c.num_warps <= block and block <= 32 * 32 * c.num_warps]
    with_places = named_args["index_ptr"] is not None and block >= 1024
    kept = [c for c in kept if c.maxnreg is None or with_places]
    return kept if len(kept) > 0 else configs[-2:-1]


@triton.autotune(configs=sort_configs(), key=["cols"], prune_configs_by={"early_config_prune": fitting_sort})
@triton.heuristics({"BLOCK": lambda args: triton.next_power_of_2(args["cols"])})
@triton.jit
def sort_rows(values_ptr, index_ptr, x_ptr, values_stride, index_stride, x_stride, rows, cols, DESCENDING: tl.constexpr,
              BLOCK: tl.constexpr, ROWS: tl.constexpr = 1):
    """ROWS rows a program. Without an index the elements of shorter rows are sorted themselves: tl.sort has a NaN behind all numbers and
    makes all of them one, which is what stands behind the end of an ascending row."""
    col = tl.arange(0, BLOCK)
    row, mask = rows_of_program(rows, ROWS)
    mask = mask & (col < cols) if ROWS > 1 else col < cols
    values_at = row * values_stride + col
    index_at = row * index_stride + col
    x = tl.load(x_ptr + row * x_stride + col, mask=mask, other=float("-inf") if DESCENDING else float("nan"))
    if index_ptr is None and BLOCK <= MOST_ALONE:
        tl.store(values_ptr + values_at, tl.sort(x, descending=DESCENDING), mask=mask)
    else:
        # What stands behind the end comes last, as its places do.
        number = numbers_of(x, DESCENDING)
        below = bits_of(x) == -0x80000000
        if x.dtype.primitive_bitwidth == 16 and BLOCK <= MOST_PLACES:
            # Places over all of the lower half: so keys of equal elements lie as far apart as others.
            STEP: tl.constexpr = 2 * MOST_PLACES // BLOCK
            keys = tl.sort(number >> 16 << 16 | col.to(tl.uint32) * STEP | below.to(tl.uint32))
            number = keys >> 16 << 16
            place = (keys & 0xFFFF) // STEP
            is_negative = keys & 1
        else:
            keys = tl.sort(number.to(tl.uint64) << 32 | col.to(tl.uint64) << 1 | below.to(tl.uint64))
            number = (keys >> 32).to(tl.uint32)
            place = keys.to(tl.uint32) >> 1
            is_negative = keys.to(tl.uint32) & 1
        x = elements_of_numbers(number, is_negative, x.dtype, DESCENDING)
        store_elements(values_ptr, index_ptr, values_at, index_at, x, place.to(tl.int32), mask)


# Elements that are wanted, at most, where the elements of a piece are selected before they are put in order.
MOST_SELECTED = 512


def topk_configs():
    found = []
    for block in [2, 4, 8, 16, 32, 64, 128, 256, 512]:
        for rows, warps in [(2, 1), *tiles_of_short_rows()]:
            if fits_short_rows(block, rows, warps):
                short = {"BLOCK": block, "SELECT": False, "AHEAD": False, "PROGRAMS": 8, "ROWS": rows}
                found.append(triton.Config(short, num_warps=warps))
    for block, warps in [(4096, 8), (4096, 16), (4096, 4), (2048, 4), (2048, 8), (2048, 2), (8192, 16), (1024, 4), (1024, 2), (1024, 1),
                         (512, 2), (256, 1), (64, 1)]:
        ordering = {"BLOCK": block, "SELECT": False, "AHEAD": False, "PROGRAMS": 8, "ROWS": 1}
        found.append(triton.Config(ordering, num_warps=warps))
    for block, warps, limit, ahead in [(4096, 8, 128, False), (4096, 4, None, False), (8192, 8, None, False),
                                       (2048, 4, 128, False), (1024, 2, None, False), (1024, 4, 80, False),
                                       (2048, 4, 112, True), (1024, 2, 128, True), (4096, 4, 160, True),
                                       (4096, 4, None, True)]:
        for programs in [2, 4, 1 if ahead else 8]:
            selecting = {"BLOCK": block, "SELECT": True, "AHEAD": ahead, "PROGRAMS": programs, "ROWS": 1}
            found.append(triton.Config(selecting, num_warps=warps, maxnreg=limit))
    return found


def fitting_topk(configs, named_args, **kwargs):
    """Pieces that a row fills to more than a half, with twice as many elements as are wanted; to select from them, twice
    as many threads. Where a row is one piece, the number of its programs says nothing. Several rows where they are short."""
    cols = named_args["cols"]
    k = named_args["k"]
    if cols <= SHORT_OF_TOPK:
        return [c for c in configs if c.kwargs["ROWS"] > 1 and c.kwargs["BLOCK"] == max(2, triton.next_power_of_2(cols))]
    configs = [c for c in configs if c.kwargs["ROWS"] == 1]
    wide = [c for c in configs if c.kwargs["BLOCK"] >= 2 * k or c.kwargs["BLOCK"] >= cols]
    wide = [c for c in wide if not c.kwargs["SELECT"] or k <= min(MOST_SELECTED, 16 * c.num_warps)]
    kept = [c for c in wide if c.kwargs["BLOCK"] < 2 * cols]
    kept = [c for c in kept if c.kwargs["BLOCK"] < cols or c.kwargs["PROGRAMS"] == 8]
    return kept if len(kept) > 0 else [c for c in wide if not c.kwargs["SELECT"]][-1:]


@triton.jit
def merged(a, b, K: tl.constexpr):
    """The first K of two lists of K keys."""
    return tl.topk(tl.reshape(tl.join(a, b), [2 * K]), K)


@triton.jit
def count_of(taken):
    return tl.sum(tl.sum(tl.sum(taken.to(tl.int32), axis=2), axis=0), axis=0)


@triton.jit
def rank_of_number(rank, k):
    """That of the k-th element, found bit by bit."""
    found = NO_RANK
    for i in range(32):
        tried = found ^ (1 << (31 - i))
        found = tl.where(count_of(rank >= tried) >= k, tried, found)
    return found


@triton.jit
def numbers_in_row(taken):
    """Which number each element that is taken has among them, by places."""
    number = tl.cumsum(taken.to(tl.int32), axis=2)
    line = tl.max(number, axis=2)
    before = tl.cumsum(line, axis=1) - line
    rows = tl.sum(line, axis=1)
    return number + before[:, :, None] + (tl.cumsum(rows, axis=0) - rows)[:, None, None]


@triton.jit
def numbers_of_threads(taken):
    """Which number each element that is taken has among them, those of a thread one after the other."""
    number = tl.cumsum(taken.to(tl.int32), axis=2)
    line = tl.max(number, axis=2)
    own = tl.sum(line, axis=0)
    return number + (tl.cumsum(line, axis=0) - line)[:, :, None] + (tl.cumsum(own, axis=0) - own)[None, :, None]


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
def columns_of_threads(start, BLOCK: tl.constexpr, THREADS: tl.constexpr, WIDTH: tl.constexpr):
    """Those of a piece: WIDTH of a thread side by side."""
    step = tl.arange(0, BLOCK // (THREADS * WIDTH))[:, None, None] * (THREADS * WIDTH)
    return start + step + tl.arange(0, THREADS)[None, :, None] * WIDTH + tl.arange(0, WIDTH)[None, None, :]


@triton.jit
def load_piece(x_row, col, cols):
    return tl.load(x_row + col, mask=col < cols, other=0.0)


@triton.jit
def add_selected(x, col, cols, k, room, filled, floor, K: tl.constexpr, ROOM: tl.constexpr, LARGEST: tl.constexpr):
    """Puts the keys of a piece of a row that may be among the row's first k behind the `filled` ones in the room. Returns
    how many are there then, and the rank that others must reach: `floor`, or a greater one that k elements reach.

    Where the room is too small, first its own keys say what rank that is. Then, of the greatest ranks that threads find
    among their elements K are at least as great as the K-th of them: so the k-th element is too, and few others are.
    Where these are still too many, the k-th rank is looked for itself."""
    rank = tl.where(col < cols, ranks_of(x, LARGEST), NO_RANK)
    taken = (rank >= floor) & (col < cols)
    count = ROOM + 1
    if floor > NO_RANK:
        count = count_of(taken)
    if filled + count > ROOM:
        if filled > 0:
            keys = first_in_room(room, filled, K, ROOM)
            tl.store(room + tl.arange(0, K), keys)
            filled = tl.minimum(filled, K)
            floor = tl.maximum(floor, rank_of_keys(tl.min(keys, axis=0)))
        best = tl.max(tl.max(rank, axis=2), axis=0)
        floor = tl.maximum(floor, tl.min(tl.topk(best, K), axis=0))
        taken = (rank >= floor) & (col < cols)
        count = count_of(taken)
        if filled + count > ROOM:
            floor = rank_of_number(rank, k)
            above = rank > floor
            equal = rank == floor
            taken = above | (equal & (numbers_in_row(equal) <= k - count_of(above)))
            count = k
    if count > 0:
        tl.store(room + filled + numbers_of_threads(taken) - 1, keys_of(rank, col, room.dtype.element_ty.primitive_bitwidth), mask=taken)
    return filled + count, floor


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


@triton.autotune(configs=topk_configs(), key=["cols", "k", "rows_class"], prune_configs_by={"early_config_prune": fitting_topk})
@triton.heuristics({
    "K": lambda args: triton.next_power_of_2(args["k"]),
    "ROOM": lambda args: 4 * max(32, triton.next_power_of_2(args["k"])) if args["SELECT"] else 0,
    "LISTS": lambda args: max(2 * triton.next_power_of_2(args["k"]), 64 * args["num_warps"]),
    "THREADS": lambda args: 32 * args["num_warps"],
    "WIDTH": lambda args: 16 // args["x_ptr"].element_size(),
    "KEY_BITS": key_bits,
})
@triton.jit
def topk_rows(values_ptr, index_ptr, x_ptr, values_stride, index_stride, x_stride, rows, cols, k, rows_class, partials_ptr,
              counters_ptr, LARGEST: tl.constexpr, BLOCK: tl.constexpr, SELECT: tl.constexpr, K: tl.constexpr,
              ROOM: tl.constexpr, LISTS: tl.constexpr, THREADS: tl.constexpr, WIDTH: tl.constexpr,
              AHEAD: tl.constexpr, PROGRAMS: tl.constexpr, ROWS: tl.constexpr = 1, KEY_BITS: tl.constexpr = 64):
    """The k first ones of each row in order. Of short rows a program takes ROWS. Of others the programs of a row (PROGRAMS a
    multiprocessor at most) take every n-th piece of BLOCK elements, with AHEAD the next one loaded meanwhile; where they are several,
    each leaves its list, and the last one merges the lists and sets the row's counter back. Where rows are more than programs, each
    takes every n-th row."""
    if ROWS > 1:
        short_rows(values_ptr, index_ptr, x_ptr, values_stride, index_stride, x_stride, rows, cols, k, LARGEST, BLOCK, K, ROWS, KEY_BITS)
    else:
        parts = tl.maximum(tl.num_programs(0) // rows, 1)
        part = tl.program_id(0) % parts
        KEY: tl.constexpr = tl.int32 if KEY_BITS == 32 else tl.int64
        memory = partials_ptr.to(tl.pointer_type(KEY))
        room = memory + tl.program_id(0) * ROOM
        at = tl.arange(0, K)
        for row in range(tl.program_id(0) // parts, rows, tl.num_programs(0) // parts):
            x_row = x_ptr + row.to(tl.int64) * x_stride
            if SELECT:
                filled = 0
                floor = NO_RANK
                if AHEAD:
                    next_x = load_piece(x_row, columns_of_threads(part * BLOCK, BLOCK, THREADS, WIDTH), cols)
                for start in tl.range(part * BLOCK, cols, parts * BLOCK):
                    col = columns_of_threads(start, BLOCK, THREADS, WIDTH)
                    if AHEAD:
                        x = next_x
                        next_x = load_piece(x_row, col + parts * BLOCK, cols)
                    else:
                        x = load_piece(x_row, col, cols)
                    filled, floor = add_selected(x, col, cols, k, room, filled, floor, K, ROOM, LARGEST)
                best = first_in_room(room, filled, K, ROOM)
            else:
                best = tl.full([K], no_key(KEY_BITS), KEY)
                for start in tl.range(part * BLOCK, cols, parts * BLOCK):
                    found = tl.topk(load_keys(x_row, start, cols, BLOCK, LARGEST, KEY_BITS), K)
                    if start == part * BLOCK:
                        best = found
                    else:
                        best = merged(best, found, K)
            values_row = row.to(tl.int64) * values_stride
            index_row = row.to(tl.int64) * index_stride
            if parts == 1:
                store_keys(values_ptr, index_ptr, x_row, values_row, index_row, best, at < k, K, LARGEST)
            else:
                lists = memory + tl.num_programs(0) * ROOM + row.to(tl.int64) * parts * K
                tl.store(lists + part * K + at, best)
                tl.debug_barrier()
                if tl.atomic_add(counters_ptr + row, 1) == parts - 1:
                    for first in tl.range(0, parts * K, LISTS):
                        place = first + tl.arange(0, LISTS)
                        more = tl.load(lists + place, mask=place < parts * K, other=no_key(KEY_BITS), cache_modifier=".cg")
                        # Its own list is among those that are loaded: nothing is kept twice.
                        found = tl.topk(more, K)
                        if first == 0:
                            best = found
                        else:
                            best = merged(best, found, K)
                    store_keys(values_ptr, index_ptr, x_row, values_row, index_row, best, at < k, K, LARGEST)
                    tl.store(counters_ptr + row, 0)
