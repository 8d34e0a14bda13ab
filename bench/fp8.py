#!/usr/bin/env python3
"""Products of float8 (e4m3) with scales: Tegula and torch._scaled_mm on the same tensors in one process.

    bench/fp8.py [--only TEXT...] [--pairs 21] [--budget SECONDS] [--out FOLDER]

Scales are one a tensor, one a row, or of blocks of 1 x 128 and 128 x 128. A is M x K, B is N x K, the result bfloat16; scales of blocks
of A lie side by side along M, as torch asks for. torch runs with fast accumulation (`fast`: sums of few bits) and without; Tegula runs
kernels/scaled_gemm.py over its configurations, promoting sums or not. The best of each goes into interleaved rounds as in gemm.py.

Writes fp8.json as it goes, at the end fp8.txt.
"""

import sys
import time

import torch
import triton

import harness
import side_by_side
from side_by_side import ROOT, load_module, tegula, tune

SHAPES = [(8192, 8192, 8192), (4096, 7168, 16384), (4096, 4096, 7168), (64, 7168, 16384)]
BLOCK = 128


class ScaledGemm(side_by_side.Case):
    """c = (scale_a a) (scale_b b)^T."""

    dtype_name, tolerance = "f8", {"f8": 8e-3}

    def __init__(self, scales, m, n, k):
        self.scales, self.m, self.n, self.k = scales, m, n, k
        self.flops = 2 * m * n * k

    def __str__(self):
        return f"{self.scales} {self.m}x{self.n}x{self.k}"

    def make(self):
        m, n, k = self.m, self.n, self.k

        def numbers(*shape):
            return torch.rand(shape, device="cuda") + 0.5

        def make_scales():
            if self.scales == "tensor":
                return numbers(), numbers()
            if self.scales == "row":
                return numbers(m, 1), numbers(1, n)
            return numbers(k // BLOCK, m).T, numbers(n // BLOCK, k // BLOCK).T

        def make_set():
            a = torch.randn(m, k, device="cuda").to(torch.float8_e4m3fn)
            b = torch.randn(n, k, device="cuda").mul_(0.5).to(torch.float8_e4m3fn)
            return [a, b, *make_scales()], torch.empty(m, n, device="cuda", dtype=torch.bfloat16)

        moved = m * k + k * n + 2 * m * n
        self.prepare(moved, max(moved / 4.2e6, self.flops / 1300e6), make_set)
        self.known = {}
        return self

    def exact(self, index):
        if index not in self.known:
            (a, b, scale_a, scale_b), _ = self.sets[index]
            a, b = a.float(), b.float()
            if self.scales == "block":
                a = a * scale_a.repeat_interleave(BLOCK, 1)
                b = b * scale_b.T.repeat_interleave(BLOCK, 0).repeat_interleave(BLOCK, 1)
            y = a @ b.T
            self.known = {index: y if self.scales == "block" else y * scale_a * scale_b}
        return self.known[index]

    def arguments(self, i):
        (a, b, scale_a, scale_b), c = self.sets[i]
        strides = {"tensor": (None,) * 4, "row": (1, None, 1, None), "block": (1, self.m, self.k // BLOCK, 1)}[self.scales]
        return (c, a, b, scale_a, scale_b, None, self.m, self.n, self.k, self.k, 1, 1, self.k, self.n, *strides,
                load_module("gemm_tiles").row_class(self.m))

    def tegula(self, promote, failures):
        module, found = load_module("scaled_gemm"), {}
        for c in module.fitting(module.configs(), {"M": self.m, "N": self.n, "K": self.k}):
            how = dict(c.kwargs)
            label = "x".join(str(how["BLOCK_" + d]) for d in "MNK") + f" group {how['GROUP_M']} w{c.num_warps} s{c.num_stages}"
            label += " transposed" * how["SWAP"] + " persistent" * bool(how["PROGRAMS"])
            label += f" {c.num_ctas} blocks" * (c.num_ctas > 1)
            how |= {f"EVEN_{d}": extent % how["BLOCK_" + d] == 0 for d, extent in zip("MNK", (self.m, self.n, self.k))}
            found[label] = how | {"ACTIVATION": "none", "BLOCKS": self.scales == "block", "PROMOTE": promote,
                                  "num_warps": c.num_warps, "num_stages": c.num_stages, "num_ctas": c.num_ctas}
        kernel = tegula.load(str(ROOT / "kernels" / "scaled_gemm.py")).scaled_gemm
        return side_by_side.tegula_candidates(self, kernel, found, lambda how, ready: self.programs(how), failures)

    def programs(self, how):
        tiles = triton.cdiv(self.m, how["BLOCK_M"]) * triton.cdiv(self.n, how["BLOCK_N"])
        return min(tiles, how["PROGRAMS"] * self.sms // how["num_ctas"]) if how["PROGRAMS"] else tiles

    def torch(self, fast):
        def product(i):
            (a, b, scale_a, scale_b), _ = self.sets[i]
            return torch._scaled_mm(a, b.T, scale_a, scale_b, out_dtype=torch.bfloat16, use_fast_accum=fast)

        error = harness.relative_error(product(0), self.exact(0))
        if not error < self.tolerance["f8"]:
            raise RuntimeError(f"WRONG RESULT of torch: relative error {error:.2g}")
        return self.over_sets(product)


def compare(case, pairs):
    failures, arms, best = {}, {}, {}
    for fast in ([False] if case.scales == "block" else [True, False]):
        try:
            arms["torch" + " fast" * fast] = case.torch(fast)
        except Exception as error:
            failures["torch" + " fast" * fast] = str(error)
    for promote in ([False] if case.scales == "block" else [False, True]):
        name = "tegula" + " fast" * (case.scales != "block" and not promote)
        best[name] = tune(case, name, case.tegula(promote, failures), failures)
        arms[name] = best[name][1]
    figures = side_by_side.measure(case, arms, pairs)
    ratios = {name: harness.ratio(figures[name.replace("tegula", "torch")], figures[name]) for name in best
              if name.replace("tegula", "torch") in figures}
    errors = {name: case.check(works[0]) for name, works in arms.items() if name in best}
    return side_by_side.report_row(case, figures, ratios, best, failures, flops=case.flops, errors=errors)


def table(rows):
    lines = []
    for row in rows:
        figures = "; ".join(f"{name} {row['flops'] / us / 1e6:.0f}" for name, us in row["us"].items())
        ratios = "; ".join(f"{name} {r['median']:.3f} x torch" for name, r in row["ratios"].items())
        lines.append(f"{row['case']}: TFLOP/s {figures}; {ratios}; best {row['best']}")
    return "\n".join(lines)


def main():
    start, options = time.perf_counter(), side_by_side.options(__doc__)
    cases = [ScaledGemm(scales, *shape) for shape in SHAPES for scales in ("tensor", "row", "block")]
    result = side_by_side.run("fp8", [(str(case), case.make) for case in cases], compare, options, start)
    text = table(result["rows"])
    side_by_side.write("fp8", text + "\n" + result["end"], text + "\n", options)
    return 1 if result["missing"] else 0


if __name__ == "__main__":
    sys.exit(main())
