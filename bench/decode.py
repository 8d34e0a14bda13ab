#!/usr/bin/env python3
"""Attention of one new token of each sequence, as inference decodes: Tegula and Triton on the same text (decode_kernels.py),
keys and values in pages of a table or side by side.

    bench/decode.py [--only TEXT...] [--pairs 15] [--budget SECONDS] [--check]

Both sides take their best block, number of warps and stages; two launches (shares of the keys, then their sum) are a graph,
replayed in interleaved rounds. Results are checked against double precision. GB/s are of keys and values. With --check small
sizes run on the emulator, with the configurations in turn, and nothing is timed.
"""

import argparse
import itertools
import os

import torch

import harness
import side_by_side
from side_by_side import HERE, tegula

MULTIPROCESSORS = 132


class Case:
    """`sequences` of up to `length` tokens, of which half are shorter; `heads` of keys, with `group` query heads each."""

    def __init__(self, device, sequences, heads, group, d, length, page):
        self.heads, self.group, self.d, self.page = heads, group, d, page
        self.name = f"{sequences} x {length} tokens, {heads * group}/{heads} heads of {d}" + (f", pages of {page}" if page else "")
        half = torch.float16 if device == "cpu" else torch.bfloat16
        normal = lambda *shape: torch.randn(*shape, device=device).to(half)
        self.lengths = torch.full((sequences, ), length, dtype=torch.int32, device=device)
        self.lengths[sequences // 2:] -= torch.randint(0, max(1, length // 4), (sequences - sequences // 2, ), device=device).int()
        pages = -(-length // page) if page else 1
        self.table = torch.randperm(sequences * pages, device=device).int().view(sequences, pages)
        self.q = normal(sequences, heads * group, d)
        self.k, self.v = (normal(sequences * pages, page, heads, d) if page else normal(sequences, length, heads, d) for _ in range(2))
        self.splits = max(1, min(64, 4 * MULTIPROCESSORS // (sequences * heads), length // 128))
        self.part = torch.empty(sequences, heads * group, self.splits, d, device=device)
        self.lse = torch.empty(sequences, heads * group, self.splits, device=device)
        self.out = torch.empty_like(self.q)
        self.bytes = 2 * int(self.lengths.sum()) * heads * d * 2

    def work(self, decode, combine, block, warps, stages):
        sequences = self.q.shape[0]
        first = decode[(sequences, self.heads, self.splits)]
        second = combine[(sequences * self.heads * self.group, )]
        given = (self.part, self.lse, self.q, self.k, self.v, self.table, self.lengths, self.d**-0.5, *self.q.stride()[:2],
                 *self.k.stride()[:3], *self.v.stride()[:3], self.table.stride(0), self.splits)
        how = {"GROUP": self.group, "D": self.d, "PAGE": self.page, "BLOCK_N": block, "num_warps": warps, "num_stages": stages}

        def launch():
            first(*given, **how)
            second(self.out, self.part, self.lse, self.splits, D=self.d, SPLITS=max(2, 1 << (self.splits - 1).bit_length()))

        return launch

    def error(self):
        """Of the first and the last sequence."""
        worst = 0
        for b in {0, self.q.shape[0] - 1}:
            count = int(self.lengths[b])
            k, v = ((x[self.table[b].long()].flatten(0, 1) if self.page else x[b])[:count].double() for x in (self.k, self.v))
            q = self.q[b].view(self.heads, self.group, self.d).double()
            p = torch.softmax(torch.einsum("hgd,nhd->hgn", q, k) * self.d**-0.5, 2)
            exact = torch.einsum("hgn,nhd->hgd", p, v).flatten(0, 1)
            worst = max(worst, harness.relative_error(self.out[b], exact))
        return worst

    def check(self, launch):
        self.out.fill_(float("nan"))
        launch()
        if not self.error() < 1e-2:
            raise RuntimeError(f"{self.name}: WRONG RESULT: {self.error()}")


CONFIGS = list(itertools.product((32, 64, 128), (4, 8), (2, 3, 4)))


def best_of(case, decode, combine):
    """The configuration that takes the least time, and its launches."""
    found = []
    for config in CONFIGS:
        launch = case.work(decode, combine, *config)
        try:
            case.check(launch)
            graph = harness.Graph([launch] * 6)
        except tegula.Error as error:
            print(f"  {config}: {str(error).splitlines()[0]}")
            continue
        except RuntimeError as error:
            if "WRONG" in str(error):
                raise
            print(f"  {config}: {str(error).splitlines()[0]}")
            continue
        times = []
        for _ in range(4):
            start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            graph()
            stop.record()
            torch.cuda.synchronize()
            times.append(start.elapsed_time(stop))
        found.append((min(times[1:]), config, launch))
    return min(found, key=lambda one: one[0])[1:]


def compare(case, pairs):
    import decode_kernels
    ours = tegula.load(str(HERE / "decode_kernels.py"))
    sides = {"tegula": (ours["decode"], ours["combine"]), "triton": (decode_kernels.decode, decode_kernels.combine)}
    best = {side: best_of(case, *kernels) for side, kernels in sides.items()}
    arms = {side: launch for side, (_, launch) in best.items()} | {"tegula again": best["tegula"][1]}
    timer = harness.Interleaved("graph", 1, 0, 6)
    figures = timer.rounds({name: timer.prepare([launch]) for name, launch in arms.items()}, pairs)
    print(f"  {best['tegula'][0]} and {best['triton'][0]}")
    harness.print_figures(figures, lambda us: f"{case.bytes / us / 1e3:8.0f} GB/s")


def cases(device):
    if device == "cpu":
        return [lambda a=a: Case(device, *a) for a in ((2, 2, 4, 64, 300, 16), (1, 1, 8, 32, 200, 32), (2, 1, 4, 32, 130, 0))]
    sizes = ((64, 8, 1, 128, 16384, 16), (64, 8, 4, 128, 4096, 64), (16, 1, 4, 128, 16384, 32), (4, 8, 1, 128, 16384, 32),
             (16, 8, 4, 64, 50000, 0), (1, 8, 1, 64, 4096, 16), (64, 4, 8, 64, 1000, 0), (4, 1, 1, 64, 4096, 0))
    return [lambda a=a: Case(device, *a) for a in sizes]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    harness.add_case_options(parser)
    parser.add_argument("--check", action="store_true", help="small sizes on the emulator, results alone")
    options = parser.parse_args()
    if not options.check:
        return harness.run_cases(cases("cuda"), options, lambda case: compare(case, options.pairs))
    os.environ["TEGULA_DEVICE"] = "emulator"
    kernels = tegula.load(str(HERE / "decode_kernels.py"))
    for number, make in enumerate(cases("cpu")):
        case = make()
        for config in CONFIGS[number::3]:
            case.check(case.work(kernels["decode"], kernels["combine"], *config))
        print(f"{case.name}: right")


if __name__ == "__main__":
    main()
