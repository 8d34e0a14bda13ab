"""Rows in order, and the largest or smallest elements of rows.

Elements are compared as numbers; a NaN counts as larger than all others, and of equal elements the one that stands first
comes first. For that an element and its place become one integer of 64 bits.
"""

import triton
import triton.language as tl


@triton.jit
def keys_of(x, place, LARGEST: tl.constexpr):
    """Integers whose descending order is that of the elements: of the largest ones first, or of the smallest."""
    bits = x.to(tl.float32).to(tl.int32, bitcast=True)
    bits = tl.where(x == 0, 0, tl.where(x != x, 0x7FC00000, bits))
    key = bits ^ (bits >> 31 & 0x7FFFFFFF)
    if not LARGEST:
        key = ~key
    return key.to(tl.int64) << 32 | (0x7FFFFFFF - place).to(tl.int64)


@triton.jit
def place_of(key):
    return 0x7FFFFFFF - (key & 0xFFFFFFFF).to(tl.int32)


@triton.jit
def load_keys(x_row, start, cols, BLOCK: tl.constexpr, LARGEST: tl.constexpr):
    """Keys of a piece of a row; what lies behind its end comes last."""
    col = start + tl.arange(0, BLOCK)
    x = tl.load(x_row + col, mask=col < cols, other=0.0)
    return tl.where(col < cols, keys_of(x, col, LARGEST), -0x8000000000000000)


@triton.jit
def store_rows(values_ptr, index_ptr, x_row, values_row, index_row, keys, count, EXTENT: tl.constexpr):
    """The elements of keys, `count` of them. All are read before any is written, as it may be in place."""
    at = tl.arange(0, EXTENT)
    place = place_of(keys)
    x = tl.load(x_row + place, mask=at < count)
    tl.debug_barrier()
    tl.store(values_ptr + values_row + at, x, mask=at < count)
    if index_ptr is not None:
        tl.store(index_ptr + index_row + at, place.to(index_ptr.dtype.element_ty), mask=at < count)


def sort_configs():
    return [triton.Config({}, num_warps=warps) for warps in [4, 8, 16, 2, 1, 32]]


def fitting_sort(configs, named_args, **kwargs):
    """4 to 32 elements a thread."""
    block = triton.next_power_of_2(named_args["cols"])
    kept = [c for c in configs if 4 * 32 * c.num_warps <= block and block <= 32 * 32 * c.num_warps]
    return kept if len(kept) > 0 else configs[-2:-1]


@triton.autotune(configs=sort_configs(), key=["cols"], prune_configs_by={"early_config_prune": fitting_sort})
@triton.heuristics({"BLOCK": lambda args: triton.next_power_of_2(args["cols"])})
@triton.jit
def sort_rows(values_ptr, index_ptr, x_ptr, values_stride, index_stride, x_stride, rows, cols, DESCENDING: tl.constexpr,
              BLOCK: tl.constexpr):
    """A row a program."""
    row = tl.program_id(0).to(tl.int64)
    x_row = x_ptr + row * x_stride
    keys = tl.sort(load_keys(x_row, 0, cols, BLOCK, DESCENDING), descending=True)
    store_rows(values_ptr, index_ptr, x_row, row * values_stride, row * index_stride, keys, cols, BLOCK)


def topk_configs():
    found = []
    for block, warps in [(4096, 8), (4096, 16), (2048, 4), (2048, 8), (8192, 16), (1024, 4), (1024, 2), (512, 2), (256, 1),
                         (64, 1)]:
        found.append(triton.Config({"BLOCK": block}, num_warps=warps))
    return found


def fitting_topk(configs, named_args, **kwargs):
    """Pieces that a row fills to more than a half, with twice as many elements as are wanted."""
    cols = named_args["cols"]
    k = named_args["k"]
    wide = [c for c in configs if c.kwargs["BLOCK"] >= 2 * k or c.kwargs["BLOCK"] >= cols]
    kept = [c for c in wide if c.kwargs["BLOCK"] < 2 * cols]
    return kept if len(kept) > 0 else wide[-1:]


@triton.jit
def merged(a, b, K: tl.constexpr):
    """The first K of two lists of K keys."""
    return tl.topk(tl.reshape(tl.join(a, b), [2 * K]), K)


@triton.autotune(configs=topk_configs(), key=["cols", "k", "rows_class"], prune_configs_by={"early_config_prune": fitting_topk})
@triton.heuristics({"K": lambda args: triton.next_power_of_2(args["k"])})
@triton.jit
def topk_rows(values_ptr, index_ptr, x_ptr, values_stride, index_stride, x_stride, rows, cols, k, rows_class, partials_ptr,
              counters_ptr, LARGEST: tl.constexpr, BLOCK: tl.constexpr, K: tl.constexpr):
    """The k first ones of each row in order. The programs of a row take every n-th piece of BLOCK elements; where they are
    several, each leaves its list, and the last one merges the lists and sets the row's counter back."""
    parts = tl.num_programs(0) // rows
    row = tl.program_id(0) // parts
    part = tl.program_id(0) % parts
    x_row = x_ptr + row.to(tl.int64) * x_stride
    best = tl.topk(load_keys(x_row, part * BLOCK, cols, BLOCK, LARGEST), K)
    for start in tl.range((part + parts) * BLOCK, cols, parts * BLOCK):
        best = merged(best, tl.topk(load_keys(x_row, start, cols, BLOCK, LARGEST), K), K)
    at = tl.arange(0, K)
    values_row = row.to(tl.int64) * values_stride
    index_row = row.to(tl.int64) * index_stride
    if parts == 1:
        store_rows(values_ptr, index_ptr, x_row, values_row, index_row, best, k, K)
    else:
        lists = partials_ptr.to(tl.pointer_type(tl.int64)) + row.to(tl.int64) * parts * K
        tl.store(lists + part * K + at, best)
        tl.debug_barrier()
        if tl.atomic_add(counters_ptr + row, 1) == parts - 1:
            for first in tl.range(0, parts * K, BLOCK):
                place = first + tl.arange(0, BLOCK)
                more = tl.load(lists + place, mask=place < parts * K, other=-0x8000000000000000, cache_modifier=".cg")
                # Its own list is among those that are loaded: nothing is kept twice.
                found = tl.topk(more, K)
                best = tl.where(first == 0, found, merged(best, found, K))
            store_rows(values_ptr, index_ptr, x_row, values_row, index_row, best, k, K)
            tl.store(counters_ptr + row, 0)
