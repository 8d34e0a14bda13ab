"""What the texts of the kernel library have in common: extents of tiles, configurations of rows, masks, activations, quantised
results."""

import triton
import triton.language as tl
from row_pieces import keeps_pieces, reads_twice
from triton.language.extra import libdevice


# Blocks of a cluster, warps of each, STAGES and registers a thread at most, for rows that one block cannot keep or keeps
# alone on a multiprocessor.
CLUSTERS = [
    (2, 8, 0, 80), (2, 16, 0, 64), (2, 16, 2, None), (2, 32, 2, None), (4, 8, 0, 80), (4, 8, 1, 80), (4, 8, 2, 128),
    (4, 16, 2, None), (4, 32, 2, None), (8, 4, 0, None), (8, 4, 2, None), (8, 8, 2, 80), (8, 8, 2, 128),
    (8, 16, 2, None), (8, 32, 2, None), (16, 8, 1, 80), (16, 8, 1, None), (16, 8, 2, 80), (16, 8, 2, 128),
    (16, 8, 2, None), (16, 16, 2, 64), (16, 16, 2, None), (8, 16, 0, None), (8, 16, 0, 64), (16, 8, 0, None), (16, 8, 0, 80),
    (16, 16, 0, None)]
# Elements of a row in each of their blocks, at least.
LEAST_OF_BLOCK = 4096
# Likewise where rows are fewer than multiprocessors: blocks, warps, and elements of a piece that the blocks share.
SHARED_PIECES = [(16, 16, 65536), (16, 16, 131072), (16, 8, 32768), (8, 16, 32768), (4, 16, 16384)]


def shares_pieces(piece, named_args):
    """Whether rows are few, and each several pieces of this width."""
    return named_args["rows_class"] <= 0 and named_args["cols"] >= 2 * piece


def unit_of_rows(cols, size, *strides):
    """Elements of 16 bytes, if it pays to begin the rows of tiles at multiples of so many (aligned_elements()): wide rows
    (narrower ones measured slower so), the same distance apart in all matrices, that begin where an access of 8 bytes may
    not. Else 1."""
    alike = all(stride == strides[0] for stride in strides)
    if alike and strides[0] > 0 and strides[0] * size % 8 != 0 and cols * size >= 32768:
        return 16 // size
    return 1


def extent(cols, size, warps, rows, unit=1):
    """Elements of a tile's row: the extent q * 2^k, q at most 15, nearest above `cols` that the warps of a row share evenly in
    accesses of 8 or 16 bytes (of one element where rows begin anywhere). With a unit, room for the elements before them. Short
    rows, which lanes divide as well, are filled up to a multiple of 8 where that is three quarters of a power of two at most."""
    if warps <= rows and cols < 128:
        whole = triton.cdiv(cols, 8) * 8
        return whole if 4 * whole <= 3 * triton.next_power_of_2(cols) else triton.next_power_of_2(cols)
    shared = 32 * max(1, warps // max(rows, 1)) * (8 // size if cols % 16 == 0 or unit > 1 else 1)
    cols += unit - 1
    count = triton.cdiv(cols, shared)
    step = 1
    while count > 15 * step:
        step *= 2
    return min(triton.cdiv(count, step) * step * shared, triton.next_power_of_2(cols))


# Rows and warps of tiles of rows of 16 elements and fewer, of which a program of whole rows takes more than 32.
NARROW_TILES = [(64, 1), (64, 2), (128, 2), (128, 4), (256, 4), (512, 4), (1024, 4), (256, 8), (512, 8), (1024, 8), (2048, 8)]
NARROW = 16


def row_config(rows, warps, stages=0, piece=0, eviction="", limit=None, blocks=1):
    """A configuration of a kernel with ROWS, STAGES, PIECE and EVICTION; `limit`: registers a thread at most."""
    values = {"ROWS": rows, "STAGES": stages, "PIECE": piece, "EVICTION": eviction}
    return triton.Config(values, num_warps=warps, num_ctas=blocks, maxnreg=limit)


def row_configs(limits, limits_of_two, most_stages):
    """Configurations of rows of any width: one row a program, several, many narrow ones, rows in clusters and by pieces. By the
    number of warps: the limits of registers a thread for programs of one row and of two, and the most STAGES."""
    warp_counts = [4, 8, 16, 32, 2, 1]
    found = []
    for warps in warp_counts:
        for limit in limits[warps]:
            for eviction in ["", "evict_last"]:
                found.append(row_config(1, warps, eviction=eviction, limit=limit))
        for stages in range(1, most_stages[warps] + 1):
            found.append(row_config(1, warps, stages))
    for rows in [2, 4, 8, 16, 32]:
        for warps in warp_counts:
            for limit in limits_of_two[warps] if rows == 2 else [None]:
                found.append(row_config(rows, warps, limit=limit))
    for rows, warps in NARROW_TILES:
        found.append(row_config(rows, warps))
    for blocks, warps, stages, limit in CLUSTERS:
        found.append(row_config(1, warps, stages, limit=limit, blocks=blocks))
    for piece in [4096, 8192]:
        for warps in warp_counts:
            found.append(row_config(1, warps, 3, piece))
    for blocks, warps, piece in SHARED_PIECES:
        found.append(row_config(1, warps, 2, piece, blocks=blocks))
    return found


def fitting_rows(configs, named_args, unit=1):
    """Of configurations with ROWS, STAGES and PIECE: whole rows where a thread has 4 to 64 of their elements, pieces where there are four
    or more. What a thread holds at a time (a row and those loaded ahead) has to fit its registers."""
    cols = named_args["cols"]
    size = named_args["x_ptr"].element_size()
    kept = []
    for config in configs:
        rows = config.kwargs["ROWS"]
        blocks = config.num_ctas
        block = extent(cols, size, config.num_warps * blocks, rows, unit)
        stages = config.kwargs["STAGES"]
        piece = config.kwargs["PIECE"]
        threads = 32 * config.num_warps * blocks
        registers = min(200, 52000 // (32 * config.num_warps))
        if config.maxnreg is not None:
            registers = config.maxnreg * 4 // 5
        if rows == 0:
            if reads_twice(config, named_args) if stages == 0 else keeps_pieces(config, named_args):
                kept.append(config)
        elif piece > 0 and blocks > 1:
            if shares_pieces(piece, named_args):
                kept.append(config)
        elif piece > 0:
            if cols >= 4 * piece and 8 * threads <= piece <= 16 * threads:
                kept.append(config)
        elif blocks > 1:
            held = block * (4 + max(stages - 1, 0) * size)
            if cols >= LEAST_OF_BLOCK * blocks and block >= 12 * threads and held <= min(512, 4 * registers) * threads:
                kept.append(config)
        elif rows * block <= 64 * threads and (rows * block >= 4 * threads or config.num_warps == 1):
            ahead = max(stages - 1, 0)
            fits = rows * block * (4 + ahead * size) <= 4 * registers * threads
            if fits and (rows == 1 or rows * block <= 8192) and (rows <= 32 or cols <= NARROW):
                kept.append(config)
    return kept


def mostly_filled(cols, width):
    """Whether pieces of `width` elements that hold `cols` have more of them than others; rows of NARROW and fewer are one piece."""
    return triton.cdiv(cols, width) * width < 2 * cols and (width > NARROW or width >= cols)


def joined(args):
    """Whether the rows of x follow each other without gaps: as one row, blocks of it are whole whatever a row's width."""
    return args["x_stride"] == args["cols"]


@triton.jit
def count_blocks(rows, cols, BLOCK: tl.constexpr, JOINED: tl.constexpr):
    """Blocks of BLOCK elements of a row, JOINED: of the matrix."""
    if JOINED:
        return tl.cdiv(rows.to(tl.int64) * cols, BLOCK)
    else:
        return rows.to(tl.int64) * tl.cdiv(cols, BLOCK)


@triton.jit
def block_of(number, x_ptr, x_stride, rows, cols, BLOCK: tl.constexpr, JOINED: tl.constexpr):
    """Pointers to the elements of a block, and which of them are there."""
    if JOINED:
        at = number * BLOCK + tl.arange(0, BLOCK)
        return x_ptr + at, at < rows.to(tl.int64) * cols
    else:
        pieces = tl.cdiv(cols, BLOCK)
        col = (number % pieces * BLOCK).to(tl.int32) + tl.arange(0, BLOCK)
        return x_ptr + number // pieces * x_stride + col, col < cols


@triton.jit
def inside(at, count, EVEN: tl.constexpr):
    """Whether an element is one of the matrix; EVEN: all are."""
    if EVEN:
        return tl.full(at.shape, True, tl.int1)
    else:
        return at < count


@triton.jit
def add_pairs(a, b, c, d):
    return a + c, b + d


@triton.jit
def sums_of_rows(x, y):
    """The sums of two tiles' rows, as columns: the warps meet once for both."""
    of_x, of_y = tl.reduce((x, y), 1, add_pairs)
    return of_x[:, None], of_y[:, None]


# ---- Rows divided over the warps of a cluster's blocks: tiles of PARTS blocks x steps x WARPS warps x elements. What a
# warp holds is reduced without a barrier; one exchange of all blocks then joins the results of the warps.


@triton.jit
def span(BLOCK: tl.constexpr, PARTS: tl.constexpr, WARPS: tl.constexpr):
    """Elements that a warp loads at a time: 8 a thread, or fewer if the row leaves no more."""
    EACH: tl.constexpr = BLOCK // (32 * PARTS * WARPS)
    return 256 if EACH % 8 == 0 else 128 if EACH % 4 == 0 else 64 if EACH % 2 == 0 else 32


@triton.jit
def columns(BLOCK: tl.constexpr, PARTS: tl.constexpr, WARPS: tl.constexpr):
    """Those of a tile: 1 x BLOCK, or with PARTS > 1 of one divided row."""
    if PARTS > 1:
        SPAN: tl.constexpr = span(BLOCK, PARTS, WARPS)
        STEPS: tl.constexpr = BLOCK // (PARTS * WARPS * SPAN)
        part = tl.arange(0, PARTS)[:, None, None, None] * (STEPS * WARPS * SPAN)
        step = tl.arange(0, STEPS)[None, :, None, None] * (WARPS * SPAN)
        return part + step + tl.arange(0, WARPS)[None, None, :, None] * SPAN + tl.arange(0, SPAN)[None, None, None, :]
    else:
        return tl.arange(0, BLOCK)[None, :]


@triton.jit
def elements_of_tile(tile, rows, cols, BLOCK: tl.constexpr, ROWS: tl.constexpr, PARTS: tl.constexpr, WARPS: tl.constexpr,
                     EVEN: tl.constexpr):
    """Rows and columns of a tile of ROWS whole rows, or of one divided row, and which of them the matrix has."""
    if PARTS > 1:
        row = tile
    else:
        row = (tile * ROWS + tl.arange(0, ROWS))[:, None]
    col = columns(BLOCK, PARTS, WARPS)
    mask = inside(col, cols, EVEN)
    if ROWS > 1:
        mask = mask & (row < rows)
    return row, col, mask


@triton.jit
def begin_aligned(begin, UNIT: tl.constexpr):
    """Where a row of a tile begins, if that of the matrix does at `begin`, and how many elements before it."""
    if UNIT > 1:
        return begin // UNIT * UNIT, (begin % UNIT).to(tl.int32)
    else:
        return begin, 0


@triton.jit
def piece_mask(at, before, cols, UNIT: tl.constexpr):
    """Which elements of a piece of such a row the matrix has: `at` counts from where the row of the tile begins."""
    if UNIT > 1:
        return (at >= before) & (at < before + cols)
    else:
        return at < cols


@triton.jit
def aligned_elements(tile, stride, rows, cols, BLOCK: tl.constexpr, ROWS: tl.constexpr, PARTS: tl.constexpr,
                     WARPS: tl.constexpr, EVEN: tl.constexpr, UNIT: tl.constexpr):
    """Rows, places and columns of a tile's elements, and which of them the matrix has, whose rows begin `stride` elements
    apart. With UNIT > 1 rows of the tile begin at multiples of UNIT, so that its accesses are wide wherever those of the
    matrix begin: columns before them are negative."""
    row, col, mask = elements_of_tile(tile, rows, cols, BLOCK, ROWS, PARTS, WARPS, EVEN)
    begin, before = begin_aligned(row.to(tl.int64) * stride, UNIT)
    at = begin + col
    if UNIT > 1:
        mask = piece_mask(col, before, cols, UNIT)
        if ROWS > 1:
            mask = mask & (row < rows)
        col = col - before
    return row, at, col, mask


@triton.jit
def warp_sums(x):
    return tl.sum(tl.sum(x, axis=1), axis=2)


@triton.jit
def warp_maxima(x):
    return tl.max(tl.max(x, axis=1), axis=2)


@triton.jit
def to_row(x):
    """A value of each warp, for its elements of a divided row."""
    return x[:, None, :, None]


@triton.jit
def in_line(x):
    """Values of the warps side by side, to be joined."""
    return tl.reshape(x, [x.shape[0] * x.shape[1]])


@triton.jit
def row_sum(x, PARTS: tl.constexpr):
    """The sums of a tile's rows as a column, or of a divided row."""
    if PARTS > 1:
        return tl.sum(in_line(warp_sums(x)), axis=0)
    else:
        return tl.sum(x, axis=1)[:, None]


@triton.jit
def row_max(x, PARTS: tl.constexpr):
    """Likewise the greatest elements."""
    if PARTS > 1:
        return tl.max(in_line(warp_maxima(x)), axis=0)
    else:
        return tl.max(x, axis=1)[:, None]


@triton.jit
def sampled(i: tl.constexpr, cols):
    """Columns of five samples of a row, i from 0 to 4, no three of which are the same modulo more than 16: elements that are far from
    most others, side by side or the same distance apart, are no three of them, or so many that they decide on the deviation."""
    return tl.minimum(i * (cols // 5 + i), cols - 1)


@triton.jit
def middle_of_five(a, b, c, d, e):
    """Of five samples the middle one: as near to the row's mean as keeps the digits of moments about it."""
    low = tl.maximum(tl.minimum(a, b), tl.minimum(c, d))
    high = tl.minimum(tl.maximum(a, b), tl.maximum(c, d))
    return tl.maximum(tl.minimum(low, high), tl.minimum(tl.maximum(low, high), e))


@triton.jit
def without_negative(squares):
    """What rounding takes below 0 is 0; a NaN, as of a row with an infinity, stays."""
    return tl.where(squares < 0, 0.0, squares)


@triton.jit
def united(count_a, mean_a, squares_a, count_b, mean_b, squares_b):
    """Count, mean and squared differences from it of two parts (Chan et al., Updating formulae, 1979)."""
    count = count_a + count_b
    share = count_b / tl.maximum(count, 1.0)
    apart = mean_b - mean_a
    mean = tl.where(count_b > 0, mean_a + apart * share, mean_a)
    squares = tl.where((count_a > 0) & (count_b > 0), squares_a + squares_b + apart * apart * count_a * share, squares_a + squares_b)
    return count, mean, squares


@triton.jit
def load_vector(ptr, col, mask):
    """Elements of an argument that may be left out; then what is returned is not used."""
    if ptr is not None:
        return tl.load(ptr + col, mask=mask, other=0.0)
    else:
        return 0.0


@triton.jit
def activate(y, ACTIVATION: tl.constexpr):
    if ACTIVATION == "relu":
        y = tl.where(y < 0, 0.0, y)
    if ACTIVATION == "leaky_relu":
        y = tl.where(y < 0, 0.01 * y, y)
    if ACTIVATION == "silu":
        y = y * tl.sigmoid(y)
    if ACTIVATION == "gelu":
        y = 0.5 * y * (1.0 + tl.erf(y * 0.7071067811865476))
    if ACTIVATION == "gelu_tanh":  # 0.5 (1 + tanh(u)) is sigmoid(2 u)
        y = y * tl.sigmoid(y * (1.5957691216057308 + 0.07135481627260025 * y * y))
    if ACTIVATION == "gelu_tanh_fast":
        y = 0.5 * y * (1.0 + tl.tanh(y * (0.7978845608028654 + 0.035677408136300125 * y * y), approx=True))
    return y


@triton.jit
def slope(y, ACTIVATION: tl.constexpr):
    """The derivative of activate() at y."""
    if ACTIVATION == "relu":
        return tl.where(y <= 0, 0.0, 1.0)
    elif ACTIVATION == "leaky_relu":
        return tl.where(y <= 0, 0.01, 1.0)
    elif ACTIVATION == "silu":
        s = tl.sigmoid(y)
        return s * (1.0 + y * (1.0 - s))
    elif ACTIVATION == "gelu":
        return 0.5 * (1.0 + tl.erf(y * 0.7071067811865476)) + y * (0.3989422804014327 * tl.exp(-0.5 * y * y))
    elif ACTIVATION == "gelu_tanh" or ACTIVATION == "gelu_tanh_fast":
        s = tl.sigmoid(y * (1.5957691216057308 + 0.07135481627260025 * y * y))
        return s + y * s * (1.0 - s) * (1.5957691216057308 + 0.21406444881780074 * y * y)
    else:
        return tl.full(y.shape, 1.0, tl.float32)


@triton.jit
def quantised(y, ELEMENT: tl.constexpr):
    """y, already divided by its scale, as an element of a type: int8 is rounded to nearest even and clamped; what is
    too large for a float8 becomes its largest number."""
    if ELEMENT == tl.int8:
        y = tl.clamp(libdevice.rint(y), -128.0, 127.0)
    return y.to(ELEMENT)


@triton.jit
def largest(ELEMENT: tl.constexpr):
    """The largest number of a type that quantised values are scaled to."""
    if ELEMENT == tl.int8:
        return 127.0
    elif ELEMENT == tl.float8e5:
        return 57344.0
    else:
        return 448.0


@triton.jit
def divide(y, scale_ptr):
    """y divided by the one scale of a tensor, if there is one."""
    if scale_ptr is not None:
        y = y / tl.load(scale_ptr)
    return y


@triton.jit
def row_scale(magnitude, ELEMENT: tl.constexpr):
    """The scale that brings rows' largest magnitudes to a type's largest number; what it divides is 0 where it is 0."""
    top: tl.constexpr = largest(ELEMENT)
    return magnitude / top


@triton.jit
def divide_rows(y, row, rows, mask, scales_ptr, ELEMENT: tl.constexpr, PARTS: tl.constexpr):
    """y divided by a scale for each row, which is stored, if scales are wanted."""
    if scales_ptr is not None:
        scale = row_scale(row_max(tl.where(mask, tl.abs(y), 0.0), PARTS), ELEMENT)
        tl.store(scales_ptr + row, scale, mask=row < rows)
        y = tl.where(scale > 0, y / scale, 0.0)
    return y
