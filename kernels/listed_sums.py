"""Sums of the rows that share an index, in one launch, for tables of few rows: the same in every run.

The index of a row is its key. A program takes some keys, a part of the rows and some columns. It looks at the indices of its part,
lists the rows of each of its keys, and adds these up. Where there are several parts, each leaves its sums, and the last one that is
done adds up those of all. Rows are listed thread by thread, so in an order that the configuration determines.
"""

import triton
import triton.language as tl
from triton.language.extra import libdevice

from segment_sums import store_total

LEAST_SEEN = 512  # rows of a part
MOST_SEEN = 4096
MOST_DEEP = 64  # rows of a key that are loaded at a time
ENOUGH = 64  # programs, and the most
MOST = 2048


def configs():
    """Each thread looks at 4 to 32 indices, with KEYS 8 at 16 at most (list_rows())."""
    found = []
    for keys in [1, 2, 4, 8]:
        for seen, warps in [(LEAST_SEEN, 4), (1024, 4), (2048, 4), (MOST_SEEN, 4), (MOST_SEEN, 8)]:
            if keys < 8 or seen <= 16 * 32 * warps:
                for cols in [64, 128, 256]:
                    found.append(triton.Config({"KEYS": keys, "SEEN": seen, "COLS": cols}, num_warps=warps))
    return found


def count_programs(named_args, keys, seen, width):
    return triton.cdiv(named_args["table_rows"], keys) * triton.cdiv(named_args["rows"], seen) * triton.cdiv(named_args["cols"], width)


def fitting(configs, named_args, **kwargs):
    """No more keys than there are. Parts as large as leave work for all multiprocessors, and not many times as many programs: each
    looks at all indices of its part."""
    most_keys = triton.next_power_of_2(named_args["table_rows"])
    widths = [64] if named_args["cols"] <= 64 else [128, 256]
    seen = min(max(LEAST_SEEN, triton.next_power_of_2(named_args["rows"])), MOST_SEEN)
    while seen > LEAST_SEEN and count_programs(named_args, 1, seen, widths[-1]) < ENOUGH:
        seen = seen // 2
    kept = [c for c in configs if c.kwargs["COLS"] in widths and c.kwargs["SEEN"] in [seen, max(LEAST_SEEN, seen // 2)]
            and c.kwargs["KEYS"] <= most_keys]
    suiting = []
    for config in kept:
        programs = count_programs(named_args, config.kwargs["KEYS"], config.kwargs["SEEN"], config.kwargs["COLS"])
        if ENOUGH <= programs and programs <= MOST:
            suiting.append(config)
    if len(suiting) > 0:
        return suiting
    return kept[:1] if count_programs(named_args, 1, seen, widths[0]) < ENOUGH else kept[-1:]


def rows_at_a_time(args):
    """DEEP: somewhat more than a part has of a key, if all keys are as frequent, as far as a thread has registers for them."""
    threads = 32 * args["num_warps"]
    mean = min(args["SEEN"], args["rows"]) / args["table_rows"]
    deep = min(triton.next_power_of_2(max(2, int(1.4 * mean))), MOST_DEEP)
    per_key = args["KEYS"] * args["COLS"]
    return max(min(deep, 32 * threads // per_key), 4 * threads // per_key, 1)


@triton.jit
def field(packed, number):
    """A field of 16 bits."""
    return ((packed >> (16 * number).to(packed.dtype)) & 0xFFFF).to(tl.int32)


@triton.jit
def count_of(filled, more, key, KEYS: tl.constexpr):
    """How many rows of a key are listed: fields of `filled`, of the keys from 4 on of `more`."""
    if KEYS == 8:
        return tl.where(key < 4, field(filled, key & 3), field(more, key & 3))
    else:
        return field(filled, key)


@triton.jit
def one_more(key, mask):
    """1 in the field of a key."""
    return mask.to(tl.int64) << (16 * key).to(tl.int64)


@triton.jit
def which_rows(index_ptr, first, rows, first_key, end_key, SEEN: tl.constexpr, THREADS: tl.constexpr):
    """Which of its rows, `first` and every THREADS-th one from there on, each thread's keys are: a bit each."""
    AT_ONCE: tl.constexpr = min(16, SEEN // THREADS)
    found = tl.zeros([THREADS], tl.int32)
    bit = tl.arange(0, AT_ONCE)[:, None]
    for start in tl.static_range(0, SEEN // THREADS, AT_ONCE):
        row = first + (start + bit) * THREADS + tl.arange(0, THREADS)[None, :]
        index = tl.load(index_ptr + row, mask=row < rows, other=-1)
        found |= tl.sum(tl.where((index >= first_key) & (index < end_key), 1 << bit, 0), axis=0) << start
    return found


@triton.jit
def list_rows(lists, index_ptr, first, rows, first_key, end_key, KEYS: tl.constexpr, SEEN: tl.constexpr, THREADS: tl.constexpr):
    """Lists of SEEN numbers each: which of SEEN rows from `first` on have each key. Returns how many, in fields. What takes time is to
    look at the indices, most of which are of other programs: rows are listed in loops over those that are found."""
    BITS: tl.constexpr = 64 // (SEEN // THREADS)  # of a key, of which as many are kept as a thread may find
    tl.static_assert(KEYS <= 1 << BITS)
    found = which_rows(index_ptr, first, rows, first_key, end_key, SEEN, THREADS)
    most = tl.max(libdevice.popc(found))
    thread = tl.arange(0, THREADS)
    own = tl.zeros([THREADS], tl.int64)
    more = tl.zeros([THREADS], tl.int64)
    keys = tl.zeros([THREADS], tl.int64)
    left = found
    for number in range(0, most):
        row = libdevice.popc((left & -left) - 1) * THREADS + thread
        key = (tl.load(index_ptr + first + row, mask=left != 0, other=first_key) - first_key).to(tl.int32)
        keys |= key.to(tl.int64) << (number * BITS)
        own += one_more(key & 3, (left != 0) & (key < 4))
        more += one_more(key & 3, (left != 0) & (key >= 4))
        left &= left - 1
    before = tl.cumsum(own, axis=0) - own
    before_more = tl.cumsum(more, axis=0) - more if KEYS == 8 else before
    left = found
    for number in range(0, most):
        row = libdevice.popc((left & -left) - 1) * THREADS + thread
        key = (keys >> (number * BITS)).to(tl.int32) & (KEYS - 1)
        place = count_of(before, before_more, key, KEYS)
        tl.store(lists + key * SEEN + place, row.to(tl.int16), mask=left != 0)
        before += one_more(key & 3, key < 4)
        before_more += one_more(key & 3, key >= 4)
        left &= left - 1
    tl.debug_barrier()
    filled = tl.sum(own, axis=0)
    return filled, tl.sum(more, axis=0) if KEYS == 8 else filled


@triton.jit
def load_numbers(list, start, end, at):
    return tl.load(list + start + at, mask=start + at < end, other=0).to(tl.int64)


@triton.jit
def load_rows(x_part, x_stride, numbers, mask, col, cols):
    return tl.load(x_part + numbers[:, None] * x_stride + col, mask=mask[:, None] & (col < cols), other=0.0).to(tl.float32)


@triton.jit
def add_long_list(list, end, x_part, x_stride, col, cols, TILE: tl.constexpr):
    """The sum of many rows of a key, 2 TILE at a time; their numbers are loaded ahead."""
    at = tl.arange(0, TILE)
    acc = tl.zeros([TILE, col.shape[1]], tl.float32)
    numbers, others = load_numbers(list, 0, end, at), load_numbers(list, TILE, end, at)
    for start in range(0, end, 2 * TILE):
        x = load_rows(x_part, x_stride, numbers, start + at < end, col, cols)
        other = load_rows(x_part, x_stride, others, start + TILE + at < end, col, cols)
        numbers = load_numbers(list, start + 2 * TILE, end, at)
        others = load_numbers(list, start + 3 * TILE, end, at)
        acc += x + other
    return tl.sum(acc, axis=0)


@triton.jit
def add_lists(lists, filled, more, x_part, x_stride, col, cols, KEYS: tl.constexpr, DEEP: tl.constexpr, SEEN: tl.constexpr):
    """The sums of all keys: DEEP rows of each at a time, or where one has many more than others, one key after the other."""
    longest = 0
    for key in tl.static_range(0, KEYS):
        longest = tl.maximum(longest, count_of(filled, more, key, KEYS))
    if longest <= 4 * DEEP:
        key = tl.arange(0, KEYS * DEEP) // DEEP
        count = count_of(filled, more, key, KEYS)
        acc = tl.zeros([KEYS * DEEP, col.shape[1]], tl.float32)
        for start in range(0, longest, DEEP):
            place = start + tl.arange(0, KEYS * DEEP) % DEEP
            numbers = load_numbers(lists + key * SEEN, place, count, 0)
            acc += load_rows(x_part, x_stride, numbers, place < count, col, cols)
        sums = tl.sum(tl.reshape(acc, [KEYS, DEEP, col.shape[1]]), axis=1)
    else:
        sums = tl.zeros([KEYS, col.shape[1]], tl.float32)
        for key in range(0, KEYS):
            total = add_long_list(lists + key * SEEN, count_of(filled, more, key, KEYS), x_part, x_stride, col, cols, KEYS * DEEP)
            sums = tl.where(tl.arange(0, KEYS)[:, None] == key, total[None, :], sums)
    return sums


@triton.jit
def either(a, b):
    return a | b


@triton.jit
def join_parts(sums_ptr, named_ptr, first, parts, col, KEYS: tl.constexpr, AT_ONCE: tl.constexpr):
    """The sums that the parts have left from slot `first` on, in their order, and which keys some part has."""
    at = tl.arange(0, AT_ONCE * KEYS)
    total = tl.zeros([AT_ONCE * KEYS, col.shape[1]], tl.float32)
    named = tl.zeros([AT_ONCE * KEYS], tl.int32)
    for start in range(0, parts, AT_ONCE):
        slot = start * KEYS + at
        there = slot < parts * KEYS
        place = (first + slot).to(tl.int64)
        total += tl.load(sums_ptr + place[:, None] * col.shape[1] + col, mask=there[:, None], other=0.0, cache_modifier=".cg")
        named |= tl.load(named_ptr + place, mask=there, other=0, cache_modifier=".cg")
    sums = tl.sum(tl.reshape(total, [AT_ONCE, KEYS, col.shape[1]]), axis=0)
    return sums, tl.reduce(tl.reshape(named, [AT_ONCE, KEYS]), 0, either) > 0


@triton.autotune(configs=configs(), key=["cols", "rows_class", "table_class"], restore_value=["table_ptr"],
                 prune_configs_by={"early_config_prune": fitting})
@triton.heuristics({"DEEP": rows_at_a_time, "THREADS": lambda args: 32 * args["num_warps"],
                    "SINGLE": lambda args: args["rows"] <= args["SEEN"]})
@triton.jit
def add_listed(table_ptr, sums_ptr, named_ptr, lists_ptr, counters_ptr, x_ptr, index_ptr, table_stride, x_stride, rows, cols,
               table_rows, rows_class, table_class, ACCUMULATE: tl.constexpr, KEYS: tl.constexpr, SEEN: tl.constexpr,
               COLS: tl.constexpr, DEEP: tl.constexpr, THREADS: tl.constexpr, SINGLE: tl.constexpr):
    """table[i] = the sum of x[t] over all t with index[t] = i, added to what stands there with ACCUMULATE; rows that no index
    names stay as they are. Programs of a piece of the columns and of a group of keys stand side by side."""
    parts = tl.cdiv(rows, SEEN)
    groups = tl.cdiv(table_rows, KEYS)
    part = tl.program_id(0) % parts
    group = tl.program_id(0) // parts % groups
    piece = tl.program_id(0) // parts // groups
    col = (piece * COLS + tl.arange(0, COLS))[None, :]
    lists = lists_ptr + tl.program_id(0).to(tl.int64) * (KEYS * SEEN)
    first = part * SEEN
    filled, more = list_rows(lists, index_ptr, first, rows, group * KEYS, tl.minimum(group * KEYS + KEYS, table_rows), KEYS, SEEN, THREADS)
    sums = add_lists(lists, filled, more, x_ptr + first.to(tl.int64) * x_stride, x_stride, col, cols, KEYS, DEEP, SEEN)
    slot = tl.arange(0, KEYS)
    named = count_of(filled, more, slot, KEYS) > 0
    there = (group * KEYS + slot).to(tl.int64)[:, None] * table_stride + col
    if SINGLE:
        store_total(table_ptr, there, sums, named[:, None] & (col < cols), ACCUMULATE)
    else:
        # Sums and names are those of all columns, piece after piece.
        begin = (piece * groups + group) * parts * KEYS
        own = (begin + part * KEYS + slot).to(tl.int64)
        tl.store(sums_ptr + own[:, None] * COLS + (col - piece * COLS), sums)
        tl.store(named_ptr + own, named.to(tl.int32))
        tl.debug_barrier()
        counter = counters_ptr + piece * groups + group
        if tl.atomic_add(counter, 1) == parts - 1:
            sums, named = join_parts(sums_ptr, named_ptr, begin, parts, col - piece * COLS, KEYS, 8)
            store_total(table_ptr, there, sums, named[:, None] & (col < cols), ACCUMULATE)
            tl.store(counter, 0)
