"""Numbers of 8 and 4 bits with scales, from matrices and back.

A scale stands for a whole matrix, for a row, or for a group: GROUP columns of TALL rows (TALL = 1: of each row). It is
fp32, the group's largest magnitude / the type's largest number, so that the group fills the type; or, where scales are
uint8, the exponent of a power of two plus 127 as microscaling formats have it (OCP Microscaling Formats, 2023): that of
the largest magnitude less that of the type's largest number; 255 stands for NaN. A group of zeros has the scale 0, and
zeros.

Elements of 4 bits lie in a uint8 by two, the first one in the low half: PACKED = int4, -8 to 7 in two's complement; e2m1,
a sign and one of 0, 0.5, 1, 1.5, 2, 3, 4, 6. Integers and e2m1 are rounded to nearest even and clamped; what is too large
for a float8 becomes its largest number. Arithmetic is fp32.
"""

import triton
import triton.language as tl
from triton.language.extra import libdevice

from norm import configs as row_configs
from norm import fitting as fitting_rows
from tiles import NARROW, NARROW_TILES, block_of, count_blocks, extent, inside, joined, largest, quantised


def configs():
    found = []
    for cols in [2, 4, 8, 16]:
        for rows, warps in NARROW_TILES:
            found.append(triton.Config({"ROWS": rows, "COLS": cols}, num_warps=warps))
    for rows, cols in [(1, 1024), (1, 2048), (1, 4096), (4, 1024), (2, 2048), (8, 512), (16, 256), (32, 128), (128, 128),
                       (128, 64), (128, 32), (8, 128), (1, 128)]:
        for warps in [4, 8, 2]:
            found.append(triton.Config({"ROWS": rows, "COLS": cols}, num_warps=warps))
    return found


def fits(config, named_args):
    """Whether the tile is filled to more than a half, with 4 to 64 elements a thread."""
    rows = config.kwargs["ROWS"]
    cols = config.kwargs["COLS"]
    elements = rows * cols / (32 * config.num_warps)
    of_row = max(named_args["cols"], 2)
    return cols < 2 * of_row and (cols > NARROW or cols >= of_row) and (rows == 1 or rows < 2 * named_args["rows"]) and 4 <= elements <= 64


def fitting(configs, named_args, **kwargs):
    kept = [c for c in configs if fits(c, named_args)]
    return kept if len(kept) > 0 else configs[-1:]


def fitting_groups(configs, named_args, **kwargs):
    """Tiles of whole groups."""
    tall = named_args["TALL"]
    group = named_args["GROUP"]
    whole = [c for c in configs if c.kwargs["ROWS"] % tall == 0 and c.kwargs["COLS"] % group == 0]
    kept = [c for c in whole if fits(c, named_args)]
    return kept if len(kept) > 0 else whole[-1:]


@triton.jit
def top(ELEMENT: tl.constexpr, PACKED: tl.constexpr):
    """The largest number of a type that groups are scaled to."""
    if ELEMENT == tl.uint8:
        return 7.0 if PACKED == "int4" else 6.0
    else:
        return largest(ELEMENT)


@triton.jit
def top_exponent(ELEMENT: tl.constexpr, PACKED: tl.constexpr):
    """The exponent of the largest number of a float type."""
    tl.static_assert(ELEMENT != tl.int8 and (ELEMENT != tl.uint8 or PACKED != "int4"),
                     "scales of microscaling formats (uint8) go with elements of type float8 or e2m1")
    if ELEMENT == tl.uint8:
        return 2
    elif ELEMENT == tl.float8e5:
        return 15
    else:
        return 8


@triton.jit
def power_of_two(exponent):
    """2^(exponent - 127) for exponents from 0 to 254, and NaN for 255."""
    bits = tl.where(exponent == 0, 0x00400000, exponent << 23)
    return tl.where(exponent == 255, float("nan"), bits.to(tl.float32, bitcast=True))


@triton.jit
def scale_of(most, ELEMENT: tl.constexpr, PACKED: tl.constexpr, SCALE: tl.constexpr):
    """The scale of groups with these largest magnitudes, as it is stored."""
    if SCALE == tl.uint8:
        exponent = (most.to(tl.int32, bitcast=True) >> 23) & 255
        scaled = tl.maximum(exponent - top_exponent(ELEMENT, PACKED), 0)
        return tl.where(exponent == 255, 255, scaled).to(tl.uint8)
    else:
        highest: tl.constexpr = top(ELEMENT, PACKED)
        return most / highest


@triton.jit
def divided(x, scale):
    """x in units of its scale, which is broadcast; 0 where that is 0."""
    if scale.dtype == tl.uint8:
        exponent = scale.to(tl.int32)
        return x * power_of_two(tl.where(exponent == 255, 255, 254 - exponent))
    else:
        return tl.where(scale > 0, x / scale, 0.0)


@triton.jit
def magnitude(a, b):
    """The larger of two magnitudes; NaN if either is."""
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def codes_of_e2m1(y):
    a = tl.abs(y)
    code = (a > 0.25).to(tl.int32) + (a >= 0.75).to(tl.int32) + (a > 1.25).to(tl.int32) + (a >= 1.75).to(tl.int32)
    code += (a > 2.5).to(tl.int32) + (a >= 3.5).to(tl.int32) + (a > 5.0).to(tl.int32)
    return code | (y.to(tl.int32, bitcast=True) >> 28 & 8)


@triton.jit
def store(out_ptr, out_stride, y, row, col, row_mask, cols, PACKED: tl.constexpr):
    """Elements in units of their scales; row: R x 1, col: the first column, y: R x C."""
    at = col + tl.arange(0, y.shape[1])[None, :]
    if out_ptr.dtype.element_ty == tl.uint8:
        if PACKED == "int4":
            codes = tl.clamp(libdevice.rint(y), -8.0, 7.0).to(tl.int32) & 15
        else:
            codes = codes_of_e2m1(y)
        codes = tl.where(at < cols, codes, 0)
        low, high = tl.split(tl.reshape(codes, [y.shape[0], y.shape[1] // 2, 2]))
        byte = col // 2 + tl.arange(0, y.shape[1] // 2)[None, :]
        mask = row_mask & (byte < tl.cdiv(cols, 2))
        tl.store(out_ptr + row * out_stride + byte, (low | high << 4).to(tl.uint8), mask=mask)
    else:
        tl.store(out_ptr + row * out_stride + at, quantised(y, out_ptr.dtype.element_ty), mask=row_mask & (at < cols))


@triton.autotune(configs=configs(), key=["cols", "rows_class"], prune_configs_by={"early_config_prune": fitting_groups})
@triton.jit
def quantise_groups(out_ptr, scales_ptr, x_ptr, out_stride, scales_stride, x_stride, rows, cols, rows_class,
                    PACKED: tl.constexpr, GROUP: tl.constexpr, TALL: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr):
    """A scale for each GROUP columns of TALL rows. A program takes ROWS rows and COLS columns."""
    pieces = tl.cdiv(cols, COLS)
    first_row = tl.program_id(0) // pieces * ROWS
    first_col = tl.program_id(0) % pieces * COLS
    row = (first_row + tl.arange(0, ROWS))[:, None]
    col = first_col + tl.arange(0, COLS)[None, :]
    x = tl.load(x_ptr + row.to(tl.int64) * x_stride + col, mask=(row < rows) & (col < cols), other=0.0).to(tl.float32)
    groups = tl.reshape(tl.abs(x), [ROWS // TALL, TALL, COLS // GROUP, GROUP])
    most = tl.reduce(tl.reduce(groups, 3, magnitude), 1, magnitude)
    scale = scale_of(most, out_ptr.dtype.element_ty, PACKED, scales_ptr.dtype.element_ty)
    scale_row = (first_row // TALL + tl.arange(0, ROWS // TALL))[:, None]
    scale_col = (first_col // GROUP + tl.arange(0, COLS // GROUP))[None, :]
    mask = (scale_row < tl.cdiv(rows, TALL)) & (scale_col < tl.cdiv(cols, GROUP))
    tl.store(scales_ptr + scale_row.to(tl.int64) * scales_stride + scale_col, scale, mask=mask)
    each = tl.broadcast_to(scale[:, None, :, None], [ROWS // TALL, TALL, COLS // GROUP, GROUP])
    y = divided(x, tl.reshape(each, [ROWS, COLS]))
    store(out_ptr, out_stride, y, row.to(tl.int64), first_col, row < rows, cols, PACKED)


@triton.autotune(configs=row_configs(), key=["cols", "rows_class"], prune_configs_by={"early_config_prune": fitting_rows})
@triton.heuristics({
    "BLOCK": lambda args: max(2, extent(args["cols"], args["x_ptr"].element_size(),
                                        args["num_warps"] * args["num_ctas"], args["ROWS"])),
    "EVEN": lambda args: args["BLOCK"] == args["cols"],
})
@triton.jit
def quantise_rows(out_ptr, scales_ptr, x_ptr, out_stride, x_stride, rows, cols, rows_class, PACKED: tl.constexpr,
                  BLOCK: tl.constexpr, ROWS: tl.constexpr, STAGES: tl.constexpr, PIECE: tl.constexpr, EVICTION: tl.constexpr,
                  EVEN: tl.constexpr):
    """A scale for each row, which is kept in registers, or with PIECE read twice in pieces. BLOCK, ROWS and STAGES as for
    norms."""
    if PIECE > 0:
        row = tl.program_id(0).to(tl.int64)
        most = tl.zeros([PIECE], tl.float32)
        for start in tl.range(0, cols, PIECE, num_stages=STAGES):
            col = start + tl.arange(0, PIECE)
            most = magnitude(most, tl.abs(tl.load(x_ptr + row * x_stride + col, mask=col < cols, other=0.0).to(tl.float32)))
        scale = scale_of(tl.reduce(most, 0, magnitude), out_ptr.dtype.element_ty, PACKED, tl.float32)
        tl.store(scales_ptr + row, scale)
        for start in tl.range(0, cols, PIECE, num_stages=STAGES):
            col = start + tl.arange(0, PIECE)[None, :]
            x = tl.load(x_ptr + row * x_stride + col, mask=col < cols, other=0.0).to(tl.float32)
            store(out_ptr, out_stride, divided(x, scale), row, start, True, cols, PACKED)
    elif STAGES == 0:
        quantise_whole_rows(out_ptr, scales_ptr, x_ptr, tl.program_id(0), out_stride, x_stride, rows, cols, PACKED, BLOCK,
                            ROWS, EVICTION, EVEN)
    else:
        for tile in tl.range(tl.program_id(0), tl.cdiv(rows, ROWS), tl.num_programs(0), num_stages=STAGES):
            quantise_whole_rows(out_ptr, scales_ptr, x_ptr, tile, out_stride, x_stride, rows, cols, PACKED, BLOCK, ROWS,
                                EVICTION, EVEN)


@triton.jit
def quantise_whole_rows(out_ptr, scales_ptr, x_ptr, tile, out_stride, x_stride, rows, cols, PACKED: tl.constexpr,
                        BLOCK: tl.constexpr, ROWS: tl.constexpr, EVICTION: tl.constexpr, EVEN: tl.constexpr):
    row = (tile * ROWS + tl.arange(0, ROWS))[:, None]
    col = tl.arange(0, BLOCK)[None, :]
    mask = inside(col, cols, EVEN) & (row < rows)
    x = tl.load(x_ptr + row.to(tl.int64) * x_stride + col, mask=mask, other=0.0, eviction_policy=EVICTION).to(tl.float32)
    most = tl.reduce(tl.abs(x), 1, magnitude)[:, None]
    scale = scale_of(most, out_ptr.dtype.element_ty, PACKED, tl.float32)
    tl.store(scales_ptr + row, scale, mask=row < rows)
    store(out_ptr, out_stride, divided(x, scale), row.to(tl.int64), 0, row < rows, cols, PACKED)


@triton.autotune(configs=configs(), key=["cols", "rows_class"], prune_configs_by={"early_config_prune": fitting})
@triton.jit
def quantise_tensor(out_ptr, x_ptr, scale_ptr, out_stride, x_stride, rows, cols, rows_class, PACKED: tl.constexpr,
                    ROWS: tl.constexpr, COLS: tl.constexpr):
    """One scale, which is given."""
    pieces = tl.cdiv(cols, COLS)
    row = (tl.program_id(0) // pieces * ROWS + tl.arange(0, ROWS))[:, None]
    first_col = tl.program_id(0) % pieces * COLS
    col = first_col + tl.arange(0, COLS)[None, :]
    x = tl.load(x_ptr + row.to(tl.int64) * x_stride + col, mask=(row < rows) & (col < cols), other=0.0).to(tl.float32)
    store(out_ptr, out_stride, divided(x, tl.load(scale_ptr)), row.to(tl.int64), first_col, row < rows, cols, PACKED)


@triton.jit
def value_of(codes, PACKED: tl.constexpr):
    """Numbers of 4 bits."""
    if PACKED == "int4":
        return ((codes ^ 8) - 8).to(tl.float32)
    else:
        code = codes & 7
        number = tl.where(code < 2, code * 0.5, (2 + (code & 1)) * power_of_two(125 + (code >> 1)))
        return tl.where(codes < 8, number, -number)


@triton.autotune(configs=configs(), key=["cols", "rows_class"], prune_configs_by={"early_config_prune": fitting})
@triton.jit
def dequantise(out_ptr, x_ptr, scales_ptr, out_stride, x_stride, scales_stride, rows, cols, rows_class,
               PACKED: tl.constexpr, GROUP: tl.constexpr, TALL: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr):
    """x times the scale of its group; GROUP = 0: of all columns, TALL = 0: of all rows."""
    pieces = tl.cdiv(cols, COLS)
    row = (tl.program_id(0) // pieces * ROWS + tl.arange(0, ROWS))[:, None].to(tl.int64)
    col = tl.program_id(0) % pieces * COLS + tl.arange(0, COLS)[None, :]
    mask = (row < rows) & (col < cols)
    if x_ptr.dtype.element_ty == tl.uint8:
        bytes = tl.load(x_ptr + row * x_stride + col // 2, mask=mask, other=0).to(tl.int32)
        x = value_of(bytes >> col % 2 * 4 & 15, PACKED)
    else:
        x = tl.load(x_ptr + row * x_stride + col, mask=mask, other=0.0).to(tl.float32)
    at = scales_ptr
    if TALL > 0:
        at += row // TALL * scales_stride
    if GROUP > 0:
        at += col // GROUP
    if TALL > 0 or GROUP > 0:
        scale = tl.load(at, mask=(row < rows) & (col < cols) if GROUP > 0 else row < rows, other=0)
    else:
        scale = tl.load(at)
    if scales_ptr.dtype.element_ty == tl.uint8:
        scale = power_of_two(scale.to(tl.int32))
    tl.store(out_ptr + row * out_stride + col, (x * scale).to(out_ptr.dtype.element_ty), mask=mask)


@triton.heuristics({"JOINED": joined})
@triton.jit
def tensor_scale(scale_ptr, x_ptr, x_stride, rows, cols, partials_ptr, counters_ptr, FORMAT: tl.constexpr,
                 JOINED: tl.constexpr, BLOCK: tl.constexpr = 4096):
    """scale[0] of a matrix. Each program leaves the largest magnitude of its blocks; the last one puts them together, and
    leaves the counter at zero."""
    most = tl.zeros([BLOCK], tl.float32)
    for number in range(tl.program_id(0).to(tl.int64), count_blocks(rows, cols, BLOCK, JOINED), tl.num_programs(0)):
        at, mask = block_of(number, x_ptr, x_stride, rows, cols, BLOCK, JOINED)
        most = magnitude(most, tl.abs(tl.load(at, mask=mask, other=0.0).to(tl.float32)))
    programs = tl.num_programs(0)
    tl.store(partials_ptr + tl.program_id(0), tl.reduce(most, 0, magnitude))
    if tl.atomic_add(counters_ptr, 1) == programs - 1:
        place = tl.arange(0, BLOCK)
        most = tl.load(partials_ptr + place, mask=place < programs, other=0.0, cache_modifier=".cg")
        if FORMAT == "int4" or FORMAT == "e2m1":
            tl.store(scale_ptr, scale_of(tl.reduce(most, 0, magnitude), tl.uint8, FORMAT, tl.float32))
        else:
            tl.store(scale_ptr, scale_of(tl.reduce(most, 0, magnitude), FORMAT, "", tl.float32))
        tl.store(counters_ptr, 0)
