#!/usr/bin/env python3
"""The library's product of matrices, as a program calls it: tegula.kernels.gemm, tuned at its first call, beside torch.mm.

    bench/products.py [--shapes MxNxK ...] [--random N] [--seed 3] [--gelu] [--only TEXT...] [--pairs 15] [--budget SECONDS]

Without --shapes: partial last waves, small ones, deep and shallow K, 1 to 256 rows. --random: as many more of extents between 1
and 14336, not all of them multiples of 8 or 64. B is N x K and transposed, results are of fp16 or bf16 in turn. A graph goes round
sets of matrices that exceed the L2 cache together (harness.py). --gelu: with GELU behind the product (Tegula by the hardware's
tanh), beside torch's two kernels and cuBLASLt's epilogue. Figures are the time of the faster of these over Tegula's, the median of
the rounds, with Tegula's once more (A/A); results are checked against fp32 products of the same matrices.
"""

import argparse
import itertools
import math
import random
import statistics

import torch
import torch.nn.functional as F

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


class Product:
    """M x K times K x N, whose columns lie side by side, in sets of matrices that exceed the L2 cache together."""

    def __init__(self, m, n, k, dtype, gelu):
        self.m, self.n, self.k, self.gelu = m, n, k, gelu
        self.name = f"{m}x{n}x{k} {str(dtype).removeprefix('torch.')}{' GELU' if gelu else ''}"
        self.bytes = 2 * (m * k + k * n + m * n)
        self.sets = max(1, min(6, math.ceil(COLD_BYTES / self.bytes)))
        normal = lambda *shape: torch.randn(*shape, device="cuda").to(dtype)
        self.a = [normal(m, k) for _ in range(self.sets)]
        self.b = [(normal(n, k) / k**0.5).T for _ in range(self.sets)]
        self.c = [torch.empty(m, n, device="cuda", dtype=dtype) for _ in range(self.sets)]
        self.bias = torch.zeros(n, device="cuda", dtype=dtype)

    def ours(self, c, a, b):
        tegula.kernels.gemm(c, a, b, epilogue="gelu_tanh_fast" if self.gelu else "none")

    def peers(self):
        if not self.gelu:
            return {"torch": lambda c, a, b: torch.mm(a, b, out=c)}
        return {"torch": lambda c, a, b: F.gelu(torch.mm(a, b, out=c), approximate="tanh"),
                "cublaslt": lambda c, a, b: torch._addmm_activation(self.bias, a, b, use_gelu=True)}

    def works(self, multiply):
        """multiply(c, a, b) of each set."""
        return [lambda i=i: multiply(self.c[i], self.a[i], self.b[i]) for i in range(self.sets)]

    def check(self):
        self.ours(self.c[0], self.a[0], self.b[0])
        exact = self.a[0].float() @ self.b[0].float()
        error = harness.relative_error(self.c[0], F.gelu(exact, approximate="tanh") if self.gelu else exact)
        if not error < TOLERANCE:
            raise RuntimeError(f"WRONG RESULT: {error}")

    def figure(self, us):
        return f"{2 * self.m * self.n * self.k / us / 1e6:6.0f} TFLOP/s {self.bytes / us / 1e3:6.0f} GB/s"


def compare(case, pairs):
    """The faster peer's time over Tegula's."""
    case.check()
    timing = harness.Interleaved("graph", case.sets, 0, max(case.sets, 6))
    arms = {"tegula": case.ours, **case.peers(), "tegula again": case.ours}
    figures = timing.rounds({name: timing.prepare(case.works(multiply)) for name, multiply in arms.items()}, pairs)
    harness.print_figures(figures, case.figure)
    return min(harness.ratio(figures[name], figures["tegula"])["median"] for name in case.peers())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", nargs="+", default=SHAPES, metavar="MxNxK")
    parser.add_argument("--random", type=int, default=0, metavar="N")
    parser.add_argument("--seed", type=int, default=3)
    parser.add_argument("--gelu", action="store_true")
    harness.add_case_options(parser)
    options = parser.parse_args()
    shapes = [tuple(map(int, shape.split("x"))) for shape in options.shapes] + random_shapes(options.random, options.seed)
    makers = [lambda shape=shape, dtype=dtype: Product(*shape, dtype, options.gelu)
              for shape, dtype in zip(shapes, itertools.cycle((torch.float16, torch.bfloat16)))]
    found = []
    harness.run_cases(makers, options, lambda case: found.append(compare(case, options.pairs)))
    if found:
        print(f"geometric mean {statistics.geometric_mean(found):.3f} of {len(found)}, least {min(found):.3f}, "
              f"{sum(faster < 0.96 for faster in found)} below 0.96")


if __name__ == "__main__":
    main()
