"""Which tiles gemm.py has for a product: of all configurations those that suit its rows, columns and depth, on a GPU of some
132 multiprocessors. What a configuration's names mean stands in gemm.py; the measurements behind the lists are of an H200.
"""

import triton


def tile(m, n, k, warps, stages, group=8, programs=0, parts=0, swap=False, stream=False, blocks=1, shares=1,
         turns=False):
    """A configuration. `blocks` of a cluster divide the tile, or K where these are the shares; each has as many warps and
    stages. `turns`: two groups of warps take tiles in turns."""
    how = {"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k, "GROUP_M": group, "PROGRAMS": programs, "PARTS": parts, "SWAP": swap,
           "STREAM": stream, "SHARES": shares, "TURNS": turns}
    return triton.Config(how, num_warps=warps, num_stages=stages, num_ctas=blocks)


def configs():
    found = []
    # Many rows. A stage of a K-step of 64 of 128 x 256 takes 48 KiB in 16-bit types: four on Hopper, three on an A100.
    # With one less there is room for the results, which then are on their way under the next tile's products.
    for stages, programs in [(3, 1), (3, 0), (2, 1)]:
        found.append(tile(128, 256, 64, 8, stages, 8, programs))
    found.append(tile(256, 128, 64, 8, 3, 8, 1))
    found.append(tile(128, 256, 32, 8, 6, 8, 1))
    found.append(tile(128, 128, 32, 4, 5, 8, 2))
    # Each of two groups of warps has a tile of its own: what one computes and stores is under the products of the other one.
    for m, n, stages, blocks in [(128, 128, 5, 1), (256, 128, 5, 2), (128, 192, 3, 1), (192, 128, 3, 1), (256, 192, 3, 2)]:
        found.append(tile(m, n, 64, 4, stages, 8, 1, blocks=blocks, turns=True))
    # Two blocks, each of which brings half of B's columns for both.
    found.append(tile(256, 64, 64, 4, 8, blocks=2))
    # Widths between the powers of two, for the numbers of tiles that these leave a small rest of.
    for n, stages in [(192, 4), (192, 3), (224, 3)]:
        found.append(tile(128, n, 64, 8, stages, 8, 1))
    for m, n, k, warps, stages in [
        (256, 128, 64, 8, 3), (128, 128, 64, 4, 2), (128, 128, 64, 4, 3), (128, 128, 64, 4, 4), (128, 128, 64, 8, 3), (128, 128, 64, 8, 4),
        (128, 128, 32, 4, 4), (128, 256, 32, 8, 4), (256, 128, 32, 8, 4),
        (128, 160, 64, 8, 5), (64, 256, 64, 4, 3), (64, 256, 64, 4, 4), (256, 64, 64, 4, 4), (128, 64, 64, 4, 4), (64, 128, 64, 4, 4),
        (64, 128, 64, 4, 8), (64, 96, 128, 4, 4), (64, 64, 64, 4, 4), (64, 64, 64, 4, 3), (64, 64, 128, 4, 3), (64, 32, 128, 4, 4),
        (64, 32, 128, 4, 8), (64, 64, 32, 2, 4), (64, 32, 32, 2, 4), (128, 32, 32, 4, 4), (32, 32, 32, 1, 3)
    ]:
        found.append(tile(m, n, k, warps, stages))
    # Few rows, where B's way from memory is all that counts: many bytes under way in many programs.
    for m in [16, 32]:
        for n, k, warps, stages in [
            (16, 256, 4, 4), (32, 128, 4, 4), (32, 128, 4, 6), (32, 256, 4, 3), (32, 256, 4, 5), (32, 256, 8, 4),
            (64, 128, 4, 3), (64, 128, 4, 5), (64, 64, 4, 6), (128, 64, 4, 4), (128, 128, 4, 3), (16, 32, 1, 3)
        ]:
            found.append(tile(m, n, k, warps, stages))
    # The transposed product, whose instructions take 64 columns of B and any number of rows of A.
    for m, n, k, warps, stages in [
        (16, 64, 64, 4, 8), (32, 64, 64, 4, 8), (48, 64, 64, 4, 8), (48, 128, 64, 4, 5), (80, 64, 64, 4, 5), (96, 64, 64, 4, 8),
        (96, 128, 64, 8, 5), (160, 128, 64, 8, 5), (192, 128, 64, 8, 4)
    ]:
        found.append(tile(m, n, k, warps, stages, 8, 0, 0, True))
    # Of very few rows: measured best on an H200 at 8 x 14336 x 8192 and at 16 x 11008 x 4096.
    for n, k, stages in [(64, 256, 3), (128, 64, 5)]:
        found.append(tile(16, n, k, 4, stages, 8, 2, 0, True))
    return found


# Tiles that are divided along K: rows, columns, K-step, warps, stages, transposed, blocks that share the tile.
DIVIDED = [(16, 64, 128, 4, 4, True, 1), (16, 128, 64, 4, 5, True, 1), (32, 64, 128, 4, 4, True, 1), (32, 128, 64, 4, 5, True, 1),
           (48, 64, 128, 4, 4, True, 1), (48, 128, 64, 4, 5, True, 1), (64, 64, 64, 4, 8, False, 1), (64, 64, 128, 4, 6, False, 1),
           (64, 128, 64, 4, 8, False, 1), (64, 128, 128, 8, 3, False, 1), (64, 256, 64, 8, 4, False, 1), (96, 64, 128, 4, 4, True, 1),
           (96, 64, 64, 4, 8, True, 1), (96, 128, 64, 8, 5, True, 1), (128, 64, 128, 8, 3, False, 1), (128, 128, 32, 8, 6, False, 1),
           (128, 128, 64, 4, 6, False, 1), (128, 128, 64, 8, 6, False, 1), (128, 192, 64, 8, 4, False, 1), (128, 256, 64, 8, 3, False, 1),
           (160, 128, 64, 8, 5, True, 1), (192, 128, 64, 8, 4, True, 1), (256, 128, 64, 8, 3, True, 1), (256, 128, 64, 4, 5, True, 2),
           (112, 256, 64, 8, 6, True, 2), (160, 256, 64, 8, 5, True, 2), (192, 256, 64, 8, 4, True, 2), (208, 256, 64, 8, 4, True, 2),
           (256, 256, 64, 8, 3, False, 2)]
# Tiles whose shares of K are added up in clusters: rows, columns, K-step, warps, stages, transposed.
SHARED = [(64, 128, 128, 4, 4, False), (64, 128, 64, 4, 8, False), (64, 256, 64, 8, 4, False), (128, 128, 64, 8, 6, False),
          (128, 128, 64, 4, 6, False), (128, 256, 64, 8, 4, False), (192, 128, 64, 8, 4, True)]
# Tiles whose last ones the programs share evenly: rows, columns, K-step, warps, stages, programs a multiprocessor.
STREAMED = [(128, 256, 64, 8, 3, 1), (256, 128, 64, 8, 3, 1), (128, 192, 64, 8, 4, 1), (128, 128, 32, 4, 5, 2)]
# Multiprocessors of a large GPU: what the choice of configurations goes by. How often a tile is divided the launch says.
PROCESSORS = 132


def clusters_at_once(blocks):
    """Clusters of so many blocks that run at a time, a block on each multiprocessor: as runtime/device.h says."""
    if blocks < 4:
        return PROCESSORS // blocks
    return PROCESSORS // blocks * 15 // 16


def row_class(M):
    """The next power of two, or three fourths of it if that is enough: 16, 32, 48, 64, 96, 128, 192, ..."""
    above = max(16, triton.next_power_of_2(M))
    if above >= 64 and M <= above // 4 * 3:
        return above // 4 * 3
    return above


# Sums that a thread holds of a tile's shares while it adds them up.
MOST_SHARES = 96


def divided_tile(m, n, k, warps, stages, swap, blocks, splits):
    """A tile that about so many programs divide: as many as can add up parts of its sums, groups of eight columns or rows, of
    all shares at a time that there are registers for."""
    groups = (m if swap else n) // 8
    parts = min(splits, groups, 30)
    of_part = triton.cdiv(groups, parts) * 8 * (n if swap else m)
    ahead = max(1, min(splits, 32 * warps * blocks * MOST_SHARES // of_part))
    return tile(m, n, k, warps, stages, 8, 1, parts, swap, False, blocks, ahead)


def divided(M, N, K):
    """Configurations with each tile divided so that every multiprocessor has a block."""
    found = []
    rows = row_class(M)
    for m, n, k, warps, stages, swap, blocks in DIVIDED + divided_evenly(M, N, K):
        tiles = triton.cdiv(M, m) * triton.cdiv(N, n)
        splits = min(clusters_at_once(blocks) // tiles, K // (2 * k))
        if splits >= 2 and (m == rows if rows <= 64 else 2 * m > rows or m >= 64) and 2 * n <= max(256, N):
            found.append(divided_tile(m, n, k, warps, stages, swap, blocks, splits))
    return found


def divided_evenly(M, N, K):
    """Tiles of as many rows (transposed) or columns as leave least of the time unused, where each is divided as often as there
    are multiprocessors for. In clocks a K-step takes about four for each row of 128 columns and 16 more, and the exchange of
    sums of a row 32."""
    found = []
    if row_class(M) <= 64:
        return found
    steps = triton.cdiv(K, 64)
    for width, along, across, swap, blocks in [(128, M, N, True, 1), (128, M, N, True, 2), (128, N, M, False, 1), (64, M, N, True, 1)]:
        least = 0
        best = 0
        for extent in range(64, 257, 8):
            tiles = triton.cdiv(along, extent) * triton.cdiv(across, width * blocks)
            splits = min(clusters_at_once(blocks) // tiles, steps // 2)
            if splits >= 2:
                clocks = triton.cdiv(steps, splits) * (extent * width // 32 + 16) + extent * width // 4
                if best == 0 or clocks < least:
                    best = extent
                    least = clocks
        if best > 0 and (width == 128 or best * width <= MOST_SUMS):
            warps = width // 16
            stages = stages_of(best, width)
            if swap:
                found.append((best, width * blocks, 64, warps, stages, True, blocks))
            else:
                found.append((width, best, 64, warps, stages, False, blocks))
    return found


def shared(M, N, K):
    """Configurations with as many shares of each tile as clusters have blocks, so that more than half of the
    multiprocessors have one. Deep products are faster divided."""
    found = []
    if K > 4096:
        return found
    for m, n, k, warps, stages, swap in SHARED:
        tiles = triton.cdiv(M, m) * triton.cdiv(N, n)
        for shares in [2, 4, 8, 16]:
            if tiles <= clusters_at_once(shares) and 2 * tiles > clusters_at_once(shares) and K >= 2 * k * shares:
                if m < 2 * M and n < 2 * N:
                    found.append(tile(m, n, k, warps, stages, 8, 0, 0, swap, False, shares, shares))
    return found


def streamed(M, N, K):
    """Configurations that share K-steps evenly, where whole tiles would leave a sixteenth of the time or more unused and a
    tile takes long enough to make up for the exchange of sums."""
    found = []
    for m, n, k, warps, stages, programs in STREAMED:
        tiles = triton.cdiv(M, m) * triton.cdiv(N, n)
        at_once = PROCESSORS * programs
        unused = (at_once - tiles % at_once) % at_once
        if tiles > at_once and 15 * unused >= tiles and K >= 64 * k:
            found.append(tile(m, n, k, warps, stages, 8, programs, 0, False, True))
    return found


# What the slots of a tile may take of a block's shared memory, and sums of a tile that four warps have registers for: of the
# transposed product, and of the other one, where products of more than 256 columns, which take two instructions, are slow.
ROOM = 231000
MOST_SUMS = 18432
MOST_SUMS_OF_ROWS = 16384


def stages_of(rows, columns, most=10, results=0, step=64):
    """Stages of a K-step in 16-bit types that a block of so many rows of one operand and columns of the other has room for,
    beside so many bytes of results. The product under way has a slot, too."""
    return max(2, min(most, (ROOM - results) // (2 * step * (rows + columns)) - 1))


# Tiles that two blocks share, each of which brings half of B's columns for both: rows, columns, K-step, warps, stages, group,
# programs.
OF_TWO_BLOCKS = [(256, 256, 64, 8, 3, 8, 1), (256, 256, 64, 8, 3, 8, 0), (256, 256, 64, 8, 4, 4, 1), (256, 160, 64, 8, 5, 8, 1),
                 (128, 256, 64, 4, 5, 8, 0)]


def of_two_blocks(M, N, stride_a, stride_b):
    """Where rows of A or B do not begin at multiples of 128 bytes, so that what is read of them lies in more lines of the L2 cache
    than it fills. The strides are those along rows or along columns that are not 1."""
    found = []
    if 32 < M and M <= 64 and N >= 4096 and stride_a % 64 + stride_b % 64 > 0:
        rows = row_class(M)
        found.append(tile(rows, 256, 64, 8, stages_of(rows, 128), 8, 0, 0, True, blocks=2))
    if M > 128 and N >= 512 and stride_a % 64 + stride_b % 64 > 0:
        for m, n, k, warps, stages, group, programs in OF_TWO_BLOCKS:
            if m == 128 or M >= 512 or programs == 0:
                found.append(tile(m, n, k, warps, stages, group, programs, blocks=2))
    return found


def step_along(stride):
    """What extents of tiles are multiples of along an axis of an operand: of what lies side by side copies bring 64 elements at a
    time, and fewer take as long."""
    return 64 if stride == 1 else 8


def best_extent(across, along, width, least, more, blocks=1, products=1, most=320, step=8):
    """The extent of tiles `width` wide that leaves least of the last round of tiles unused, of so many products and by clusters
    of so many blocks: any multiple of `step` from `least` to `most` that one instruction takes as columns of B, and multiples of
    16 that two take. A tile takes about the time of its extent and `more`."""
    best = 0
    shortest = 0
    tiles_across = products * triton.cdiv(across, width)
    at_once = clusters_at_once(blocks)
    for extent in [e for e in list(range(8, 257, 8)) + [272, 288, 304, 320] if least <= e and e <= most and e % step == 0]:
        time = triton.cdiv(tiles_across * triton.cdiv(along, extent), at_once) * (extent + more)
        if best == 0 or time < shortest:
            best = extent
            shortest = time
    return best


def height_of(rows, step, k):
    """Rows of A of a tile with K-steps of k that holds so many, a multiple of `step`: rows of 128 elements lie in shared memory in blocks of a
    power of two of them, and only those of 8, or of 64 and more, are operands of few instructions."""
    height = triton.cdiv(rows, step) * step
    in_blocks = height % 16 == 0 and height % 64 != 0 and height != triton.next_power_of_2(height)
    return height + 8 if k > 64 and in_blocks else height


def of_few_rows(M, N):
    """Tiles of all rows of a product of up to 64. A product that waits for memory takes as long as its busiest multiprocessor:
    some have as many columns as give each a tile, by instructions that take 64 rows and any multiple of 8 columns. The others are
    of the transposed product, whose instructions take 64 columns of B and no more rows than there are."""
    columns = best_extent(M, N, 64, 24, 24)
    found = []
    for k, blocks in [(64, 1), (128, 1), (64, 2)]:
        found.append(tile(64, columns * blocks, k, 4, max(2, stages_of(64, columns) * 64 // k), blocks=blocks))
    for n, k, stages, blocks in [(64, 64, 10, 1), (128, 64, 5, 1), (128, 64, 10, 1), (128, 64, 10, 2), (256, 64, 16, 4), (512, 64, 16, 4),
                                 (256, 128, 8, 4), (512, 128, 8, 4)]:
        rows = height_of(M, 8, k)
        found.append(tile(rows, n, k, 4, stages_of(rows, n // blocks, stages, step=k), 8, 0, 0, True, blocks=blocks))
    return found


def adapted(M, N, row_step, column_step):
    """Tiles whose columns, or rows of the transposed product, are as many as suit the matrix. Two blocks share one where that
    makes less to read: transposed tiles then have more rows, so that the columns of B are read less often. Programs that go
    from tile to tile hide the ends of their tiles, and have shorter ones, as they need more registers beside the sums."""
    found = []
    for blocks, more in [(1, 24), (2, 64)]:
        rows = best_extent(N, M, 128, 80, more, step=row_step)
        found.append(tile(rows, 128 * blocks, 64, 8, stages_of(rows, 128), 8, 0, 0, True, blocks=blocks))
        shorter = best_extent(N, M, 128, 80, 8, step=row_step)
        if shorter <= 256 and triton.cdiv(M, shorter) * triton.cdiv(N, 128) > PROCESSORS:
            found.append(tile(shorter, 128 * blocks, 64, 8, stages_of(shorter, 128), 8, 1, 0, True, blocks=blocks))
        if shorter != rows and rows <= 256 and triton.cdiv(M, rows) * triton.cdiv(N, 128) > PROCESSORS:
            found.append(tile(rows, 128 * blocks, 64, 8, stages_of(rows, 128), 8, 1, 0, True, blocks=blocks))
    # Small ones, where all multiprocessors have one at the same time.
    for width, blocks in [(64, 1), (64, 4), (128, 1)]:
        rows = best_extent(N, M, width * blocks, 32, 24, blocks, step=row_step)
        if rows * width <= MOST_SUMS:
            found.append(tile(rows, width * blocks, 64, 4, stages_of(rows, width), 8, 0, 0, True, blocks=blocks))
    # All rows, or half of them, or a third, which so are read once for each cluster, whose blocks of 64 or 128 columns bring each
    # other their shares of them.
    for parts in [1, 2, 3]:
        rows = triton.cdiv(triton.cdiv(M, parts), row_step) * row_step
        if rows > 256 or rows < 40:
            continue
        for width, warps, blocks in [(64, 4, 2), (128, 8, 2), (64, 4, 4), (128, 8, 4), (128, 4, 4)]:
            if (parts == 1 or blocks == 4) and (warps == 8 or rows * width <= MOST_SUMS):
                found.append(tile(rows, width * blocks, 64, warps, stages_of(rows, width), 8, 0, 0, True, blocks=blocks))
    # Two groups of four warps that have 128 columns of B each: the rows of A are read for more of them.
    for blocks in [1, 2, 4]:
        rows = best_extent(N, M, 256 * blocks, 64, 24, blocks, most=160, step=row_step)
        found.append(tile(rows, 256 * blocks, 64, 8, stages_of(rows, 256), 8, 0, 0, True, blocks=blocks))
    for m, warps, blocks in [(64, 4, 1), (128, 8, 1), (128, 4, 2), (256, 8, 2), (512, 8, 4), (256, 8, 1), (256, 4, 4)]:
        wide = m // blocks
        columns = best_extent(M, N, m, 64, 24, blocks, step=column_step)
        most = MOST_SUMS_OF_ROWS if warps == 4 else 40960 if wide == 128 else 36864
        if m < 2 * M and wide * columns <= most:
            found.append(tile(m, columns, 64, warps, stages_of(wide, columns), 8, 0, blocks=blocks))
            if triton.cdiv(M, m) * triton.cdiv(N, columns) > clusters_at_once(blocks):
                found.append(tile(m, columns, 64, warps, stages_of(wide, columns), 8, 1, blocks=blocks))
    for rows, columns, stages, swap, blocks in in_turns(M, N, row_step, column_step):
        found.append(tile(rows, columns, 64, 4, stages, 8, 1, 0, swap, blocks=blocks, turns=True))
    return found


# Tiles for two groups of warps in turns: columns of B of a transposed product, or rows of A, how many rows or columns registers have
# room for the sums of, whether transposed, and blocks that share one.
IN_TURNS = [(64, 256, True, 1), (64, 256, False, 1), (128, 192, True, 1), (128, 192, False, 1), (128, 192, True, 2), (128, 192, False, 2),
            (128, 192, True, 4)]


def in_turns(M, N, row_step, column_step, products=1):
    """Rows, columns, stages, whether transposed and blocks of tiles that suit the matrix where two groups of warps take them in turns:
    the ends of one group's tiles are under the products of the other one, which counts most where K is short."""
    found = []
    for width, most, swap, blocks in IN_TURNS:
        across = N if swap else M
        along = M if swap else N
        extent = best_extent(across, along, width * blocks, 64, 8, blocks, products, most, row_step if swap else column_step)
        if width * blocks < 2 * across and products * triton.cdiv(across, width * blocks) * triton.cdiv(along, extent) > clusters_at_once(blocks):
            stages = stages_of(width, extent, 10, 2 * width * extent)
            if swap:
                found.append((extent, width * blocks, stages, True, blocks))
            else:
                found.append((width * blocks, extent, stages, False, blocks))
    return found


def fitting(configs, named_args, **kwargs):
    """Tiles that are at most twice as large as the matrix; of few rows those that hold all of them, and of a large
    matrix those that read each operand least often."""
    M = named_args["M"]
    N = named_args["N"]
    K = named_args["K"]
    rows = row_class(M)
    kept = []
    for config in configs:
        m = config.kwargs["BLOCK_M"]
        n = config.kwargs["BLOCK_N"]
        k = config.kwargs["BLOCK_K"]
        if n > max(16, triton.next_power_of_2(N)) or k > max(64, triton.next_power_of_2(K)):
            continue
        if rows <= 64:
            if m == rows:
                kept.append(config)
        elif M * N >= 4194304 and N >= 64:
            if m <= rows and m * n >= 8192:
                kept.append(config)
        elif m <= rows and (m >= 64 or m == n) and config.kwargs["PROGRAMS"] == 0:
            kept.append(config)
    if named_args["partials_ptr"] is not None:
        kept += divided(M, N, K) + streamed(M, N, K)
    kept += shared(M, N, K)
    kept += of_two_blocks(M, N, named_args["stride_am"] * named_args["stride_ak"],
                          named_args["stride_bk"] * named_args["stride_bn"])
    if rows > 64 and N >= 128:
        kept += adapted(M, N, step_along(named_args["stride_am"]), step_along(named_args["stride_bn"]))
    elif M > 8 and N >= 2048:
        kept += of_few_rows(M, N)
    if len(kept) == 0:
        kept = [tile(16, 16, 32, 1, 3)]
    return kept
