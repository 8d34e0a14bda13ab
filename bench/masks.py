#!/usr/bin/env python3
"""Kernels whose masks end anywhere, on the same text by Triton and by Tegula (tegula_triton): elementwise over odd counts, and
rows of which an odd number of columns is used.

    bench/masks.py [--only TEXT...] [--pairs 15] [--budget SECONDS]

Both sides take their best block and number of warps. Launches are graphs, replayed in interleaved rounds with a flushed
cache; results are compared.
"""

import argparse
import statistics

import torch
import triton
import triton.language as tl

import harness
import side_by_side  # so that bindings/python is found
import tegula_triton


@triton.jit
def gated(out_ptr, x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    x = tl.load(x_ptr + i, mask=mask).to(tl.float32)
    y = tl.load(y_ptr + i, mask=mask).to(tl.float32)
    tl.store(out_ptr + i, x / (1 + tl.exp(-x)) * y, mask=mask)


@triton.jit
def rms_norm(out_ptr, x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    mask = i < n
    row = tl.program_id(0).to(tl.int64) * BLOCK
    x = tl.load(x_ptr + row + i, mask=mask, other=0.0).to(tl.float32)
    y = tl.load(y_ptr + row + i, mask=mask, other=0.0).to(tl.float32)
    tl.store(out_ptr + row + i, x / tl.sqrt(tl.sum(x * x) / n + 1e-6) * y, mask=mask)


class Case:
    """One text at one size: its tensors, and the blocks and numbers of warps to choose from."""

    def __init__(self, function, n, dtype, stride=None):
        self.function, self.n, self.stride = function, n, stride
        self.rows = (64 << 20) // stride if stride else 1
        count = self.rows * (stride or n)
        self.x, self.y, self.theirs, self.ours = (torch.randn(count, device="cuda").to(dtype) for _ in range(4))
        self.blocks = [stride] if stride else [512, 1024, 2048, 4096]
        self.bytes = 3 * self.rows * n * dtype.itemsize
        self.name = f"{function.__name__} {f'{n} of {stride} columns' if stride else n} {str(dtype)[6:]}"

    def graphs(self, out):
        """A graph for each choice, launched by whom launches of Triton's functions go to."""
        found = {}
        for block in self.blocks:
            for warps in (2, 4, 8):
                grid = (self.rows if self.stride else triton.cdiv(self.n, block), )
                launch = lambda: self.function[grid](out, self.x, self.y, self.n, BLOCK=block, num_warps=warps)
                launch()
                torch.cuda.synchronize()
                found[block, warps] = harness.Graph([launch])
        return found

    def used(self, out):
        return out.view(self.rows, -1)[:, :self.n].float()

    def check(self):
        error = harness.relative_error(self.used(self.ours), self.used(self.theirs))
        if not error < 5e-3:
            raise RuntimeError(f"{self.name}: WRONG RESULT: {error}")


def compare(case, theirs, pairs):
    ours = case.graphs(case.ours)
    for graph in theirs.values():
        graph()
    torch.cuda.synchronize()
    case.check()
    flush = max(2 * torch.cuda.get_device_properties(0).L2_cache_size, 256 << 20)
    timer = harness.Interleaved("flush", 1, flush, 3)

    def best(graphs):
        figures = timer.rounds({choice: [graph] for choice, graph in graphs.items()}, 5)
        return graphs[min(figures, key=lambda choice: statistics.median(figures[choice]))]

    ours, theirs = best(ours), best(theirs)
    figures = timer.rounds({"tegula": [ours], "tegula again": [ours], "triton": [theirs]}, pairs)
    harness.print_figures(figures, lambda us: f"{case.bytes / us / 1e3:8.0f} GB/s")


CASES = [(gated, 67108865, torch.bfloat16), (gated, 3333337, torch.bfloat16), (gated, 33554433, torch.float32),
         (rms_norm, 1001, torch.bfloat16, 1024), (rms_norm, 801, torch.bfloat16, 1024), (rms_norm, 3333, torch.bfloat16, 4096)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    harness.add_case_options(parser)
    options = parser.parse_args()

    def run(case):
        theirs = case.graphs(case.theirs)  # by Triton, before its launches go elsewhere
        tegula_triton.install()
        try:
            compare(case, theirs, options.pairs)
        finally:
            tegula_triton.uninstall()

    harness.run_cases([lambda arguments=arguments: Case(*arguments) for arguments in CASES], options, run)


if __name__ == "__main__":
    main()
