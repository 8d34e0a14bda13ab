#!/usr/bin/env python3
"""Scans, sort and topk along rows: Tegula and Triton on the same text, torch.compile, torch and a copy, in one process.

    bench/scans.py [--only TEXT...] [--pairs 21] [--budget SECONDS] [--out FOLDER]

Both sides run scan_kernels.py over the same configurations and take their best ones into interleaved rounds
(harness.py), with Tegula's once more (A/A). Results are checked against double precision (scans) or torch's (sort, topk:
exactly). Writes scans.json as it goes, at the end scans.txt and scans.md.
"""

import sys
import time

import torch
import triton

import harness
import report
import scan_kernels
import side_by_side
from side_by_side import DTYPES, HERE, tegula


class Case(side_by_side.Case):
    """A function of each row of a matrix."""

    def __init__(self, dtype, rows, cols):
        self.dtype_name, self.rows, self.cols, self.dtype = dtype, rows, cols, DTYPES[dtype]
        element = torch.empty(0, dtype=self.dtype).element_size()
        moved = rows * (cols + self.out_cols()) * element
        self.prepare(moved, moved / 3e6, lambda: ([torch.randn(rows, cols, device="cuda", dtype=self.dtype)],
                                                  torch.empty(rows, self.out_cols(), device="cuda", dtype=self.dtype)))

    def __str__(self):
        return f"{self.name} {self.rows}x{self.cols} {self.dtype_name}"

    def out_cols(self):
        return self.cols

    def exact(self, index):
        return self.torch(self.sets[index][0][0].double())

    def candidates(self, side, failures):
        for kernel, constexprs, warps in self.configs():
            label = " ".join([kernel, *(f"{k}={v}" for k, v in constexprs.items()), f"w={warps}"])
            how = dict(constexprs, num_warps=warps)
            function = (tegula.load(str(HERE / "scan_kernels.py"))[kernel] if side == "tegula" else getattr(scan_kernels, kernel))
            launch = function[(self.rows,)]
            yield label, self.over_sets(lambda i, launch=launch, how=how: launch(self.sets[i][1], self.sets[i][0][0], *self.sizes(), **how)), None

    def sizes(self):
        return ()


class CumSum(Case):
    name = "cumsum"

    def torch(self, x):
        return torch.cumsum(x, 1)

    def sizes(self):
        return (self.cols,)

    def configs(self):
        whole = triton.next_power_of_2(self.cols)
        for warps in (1, 2, 4, 8, 16, 32):
            if whole <= 16384 and 2 <= whole // (32 * warps) <= 64:
                yield "cumsum", {"BLOCK": whole}, warps
            for block in (1024, 2048, 4096, 8192):
                if block < whole and 2 <= block // (32 * warps) <= 64:
                    for stages in (1, 2, 3):
                        yield "cumsum_pieces", {"BLOCK": block, "STAGES": stages}, warps


class Sort(Case):
    name = "sort"

    def torch(self, x):
        return torch.sort(x, 1).values

    def configs(self):
        for warps in (1, 2, 4, 8, 16):
            if 2 <= self.cols // (32 * warps) <= 64:
                yield "sort", {"cols": self.cols}, warps


class TopK(Case):
    def __init__(self, k, *args):
        self.k, self.name = k, f"topk {k} of"
        super().__init__(*args)

    def out_cols(self):
        return self.k

    def torch(self, x):
        return torch.topk(x, self.k, 1).values

    def configs(self):
        for _, constexprs, warps in Sort.configs(self):
            yield "topk", dict(constexprs, K=self.k), warps


CASES = [(CumSum, ("f32", 4096, 4096)), (CumSum, ("f32", 4096, 1024)), (CumSum, ("f32", 8192, 12672)), (CumSum, ("f32", 1024, 65536)),
         (Sort, ("f32", 4096, 1024)), (Sort, ("f32", 4096, 4096)), (Sort, ("f16", 4096, 2048)),
         (TopK, (32, "f32", 4096, 1024)), (TopK, (64, "f32", 4096, 4096)), (TopK, (8, "f32", 16384, 256))]


def compare(case, pairs):
    failures = {}
    best, arms = side_by_side.best_of_sides(case, lambda side: case.candidates(side, failures), failures)
    compiled = torch.compile(case.torch)
    arms["torch"], arms["torch.compile"] = (case.over_sets(lambda i, f=f: f(case.sets[i][0][0])) for f in (case.torch, compiled))
    arms["copy"] = case.over_sets(lambda i: case.sets[i][0][0].clone())
    figures = side_by_side.measure(case, arms, pairs)
    error = max(case.check(work, i) for i, work in enumerate(arms["tegula"]))
    ratios = {"A/A": harness.ratio(figures["tegula again"], figures["tegula"])}
    others = {name: harness.ratio(figures[name], figures["tegula"]) for name in ("triton", "torch.compile", "torch")}
    ratios |= others
    ratios["best other"] = min(others.values(), key=lambda r: r["median"])
    return side_by_side.report_row(case, figures, ratios, best, failures, cols=case.cols, bytes=case.bytes, method=case.method[0],
                                   error=error, rounds=figures)


def main():
    start, options = time.perf_counter(), side_by_side.options(__doc__)
    cases = []
    for make, a in CASES:
        size = a[-2:]
        name = make.name if hasattr(make, "name") else f"topk {a[0]} of"
        cases.append((f"{name} {size[0]}x{size[1]} {a[-3]}", lambda make=make, a=a: make(*a)))
    result = side_by_side.run("scans", cases, compare, options, start)
    side_by_side.write("scans", report.table(result["rows"]) + "\n" + result["end"], report.scans_markdown(result), options)
    return 1 if result["missing"] else 0


if __name__ == "__main__":
    sys.exit(main())
