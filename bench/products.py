#!/usr/bin/env python3
"""The library's product of matrices, as a program calls it: tegula.kernels.gemm, tuned at its first call, beside torch.mm.

    bench/products.py [--shapes MxNxK ...] [--random N] [--seed 3] [--pairs 15] [--budget SECONDS]

Without --shapes: partial last waves, small ones, deep and shallow K, 1 to 256 rows. --random: as many more of extents between 1
and 14336, not all of them multiples of 8 or 64. B is N x K and transposed, results are of fp16 or bf16 in turn. A graph goes round
sets of matrices that exceed the L2 cache together (harness.py). Figures are torch's time over Tegula's, the median of the rounds,
with Tegula's once more (A/A); results are checked against fp32 products of the same matrices.
"""

import argparse
import math
import random
import statistics
import sys
import time

import torch

import harness
from side_by_side import tegula

SHAPES = """6144x6144x6144 4608x5632x4096 5120x5120x5120 2304x7168x2048 768x768x768 896x896x896 1024x1024x1024 1280x1280x1280
1536x1536x1536 768x768x12288 512x1024x16384 1024x768x8192 4096x6144x384 8192x4096x256 1x14336x4096 8x4096x11008 16x8192x8192
64x11008x4096 64x4096x14336 96x5120x5120 192x8192x4096 192x4096x11008 256x14336x4096 256x4096x4096 3072x3072x3072 4096x4096x4096
8192x8192x8192 8192x14336x4096 640x640x640 1152x1536x1024 320x5120x1536 72x7168x2048""".split()
ROWS = [1, 3, 8, 16, 33, 64, 100, 128, 200, 256, 384, 500, 777, 1000, 1536, 2048, 3000, 4096]
COLUMNS = [256, 512, 1000, 1200, 1536, 2048, 3072, 4096, 5120, 6000, 8192, 11008, 14336]
DEPTHS = [128, 384, 512, 1000, 1024, 1536, 2048, 3000, 4096, 5000, 8192, 14336]
COLD_BYTES = 150e6  # three times the L2 cache
TOLERANCE = 5e-3


def random_shapes(count, seed):
    draw = random.Random(seed)
    found = []
    while len(found) < count:
        m, n, k = (draw.choice(extents) for extents in (ROWS, COLUMNS, DEPTHS))
        if m * n * k < 4e11:
            found.append((m, n, k))
    return found


def compare(m, n, k, dtype, pairs):
    """Torch's time over Tegula's, and a line that tells it."""
    sets = max(1, min(6, math.ceil(COLD_BYTES / (2 * (m * k + k * n + m * n)))))
    normal = lambda *shape: torch.randn(*shape, device="cuda").to(dtype)
    a = [normal(m, k) for _ in range(sets)]
    b = [(normal(n, k) / k**0.5).T for _ in range(sets)]
    c = [torch.empty(m, n, device="cuda", dtype=dtype) for _ in range(sets)]
    ours = [lambda i=i: tegula.kernels.gemm(c[i], a[i], b[i]) for i in range(sets)]
    peers = [lambda i=i: torch.mm(a[i], b[i], out=c[i]) for i in range(sets)]
    ours[0]()
    error = harness.relative_error(c[0], a[0].float() @ b[0].float())
    if not error < TOLERANCE:
        raise RuntimeError(f"{m}x{n}x{k}: WRONG RESULT: {error}")
    timing = harness.Interleaved("graph", sets, 0, max(sets, 6))
    times = timing.rounds({name: timing.prepare(works) for name, works in
                           (("tegula", ours), ("torch", peers), ("again", ours))}, pairs)
    us = statistics.median(times["tegula"])
    faster, same = (harness.ratio(times[name], times["tegula"])["median"] for name in ("torch", "again"))
    return faster, (f"{faster:6.3f}  {m}x{n}x{k} {str(dtype).removeprefix('torch.')}  {us:.1f} us, {2 * m * n * k / us / 1e6:.0f} TFLOP/s, "
                    f"{2 * (m * k + k * n + m * n) / us / 1e3:.0f} GB/s, A/A {same:.3f}, error {error:.1e}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", nargs="+", default=SHAPES, metavar="MxNxK")
    parser.add_argument("--random", type=int, default=0, metavar="N")
    parser.add_argument("--seed", type=int, default=3)
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--budget", type=float, default=math.inf, metavar="SECONDS")
    options = parser.parse_args()
    start, found = time.monotonic(), []
    shapes = [tuple(map(int, shape.split("x"))) for shape in options.shapes] + random_shapes(options.random, options.seed)
    for number, shape in enumerate(shapes):
        if time.monotonic() - start > options.budget:
            print(f"no time for {len(shapes) - number} of {len(shapes)}")
            break
        found.append(compare(*shape, (torch.float16, torch.bfloat16)[number % 2], options.pairs))
        print(found[-1][1], flush=True)
        torch.cuda.empty_cache()
    if not found:
        sys.exit("no product timed")
    figures = sorted(faster for faster, _ in found)
    print(f"geometric mean {statistics.geometric_mean(figures):.3f} of {len(figures)}, least {figures[0]:.3f}, "
          f"{sum(figure < 0.96 for figure in figures)} below 0.96")


if __name__ == "__main__":
    main()
