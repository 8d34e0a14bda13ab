#!/usr/bin/env python3
"""The library's row, column and elementwise entries, as a program calls them, at random shapes beside torch and torch.compile.

    bench/entries.py [--count 100] [--seed 1] [--only TEXT...] [--pairs 9] [--budget SECONDS] [--shapes SHAPE...] [--alone]

Shapes come from extents that few choose: 1 to 200000 rows of 1 to 262144 elements, 1 MB to 400 MB, fp32 and bf16, some with a gap
behind each row. Entries are tuned at their first call. A graph goes round sets of tensors that exceed the L2 cache together
(harness.py). Figures are the time of the faster of torch and torch.compile over Tegula's, the median of the rounds, and the share of
the rate that a copy of as many bytes reaches there; results are checked against torch's in double precision. --shapes "50000x3 float32"
"7x100000 bfloat16 of 100003" ... takes all entries at these shapes instead, --alone leaves torch and torch.compile out.
"""

import argparse
import math
import random
import statistics

import torch
import torch.nn.functional as F

import harness
from side_by_side import tegula

COLUMNS = [1, 3, 17, 64, 100, 257, 500, 777, 1000, 1024, 2047, 3000, 4096, 5000, 8191, 12345, 20000, 32000, 50257, 65537, 100000, 151936,
           200000, 262144]
ROWS = [1, 7, 33, 64, 100, 511, 1000, 4096, 10000, 50000, 200000]
COLD_BYTES = 150e6  # three times the L2 cache
EPS = 1e-5
TOLERANCE = {torch.float32: 3e-5, torch.bfloat16: 1e-2}


def matrix(rows, cols, dtype, gap=0):
    return torch.randn(rows, cols + gap, device="cuda").to(dtype)[:, :cols]


class Entry:
    """`moved`: matrices of the shape that are read and written. Inputs are `matrices` of them, then `vectors` of a row's extent;
    torch_function(*inputs) gives the results, call(*results, *inputs) writes them. results(rows, cols, dtype): their shapes and types."""

    def __init__(self, name, moved, matrices, torch_function, call, vectors=0, results=None, integer=False):
        self.name, self.moved, self.matrices, self.vectors = name, moved, matrices, vectors
        self.torch_function, self.call, self.integer = torch_function, call, integer
        self.results = results or (lambda rows, cols, dtype: [((rows, cols), dtype)])


def rms(x, w):
    f = x.float() if x.dtype != torch.float64 else x
    return (f * torch.rsqrt(f.pow(2).mean(-1, keepdim=True) + EPS)).to(x.dtype) * w


def gradients(function):
    """The gradients of all inputs but the first, which is that of the result."""

    def apply(dy, *inputs):
        inputs = [x.detach().requires_grad_() for x in inputs]
        return torch.autograd.grad(function(*inputs), inputs, dy)

    return apply


def rows_of(dtype=torch.float32):
    return lambda rows, cols, kind: [((rows,), dtype or kind)]


def columns_of(dtype=torch.float32):
    return lambda rows, cols, kind: [((1, cols), dtype or kind)]


def of_matrix_and(vectors):
    return lambda rows, cols, dtype: [((rows, cols), dtype)] + [((cols,), dtype)] * vectors


K = tegula.kernels
layer_norm = lambda x, w, b: F.layer_norm(x, (x.shape[-1],), w, b, EPS)
ENTRIES = [
    Entry("softmax", 2, 1, lambda x: torch.softmax(x, 1), lambda out, x: K.softmax(out, x)),
    Entry("log_softmax", 2, 1, lambda x: torch.log_softmax(x, 1), lambda out, x: K.log_softmax(out, x)),
    Entry("softmax_scale_bias", 2, 1, lambda x, b: torch.softmax(x, 1) * 1.5 + b,
          lambda out, x, b: K.softmax_scale_bias(out, x, scale=1.5, bias=b), vectors=1),
    Entry("softmax_backward", 3, 2, lambda dy, y: y * (dy - (dy * y).sum(1, keepdim=True)), lambda dx, dy, y: K.softmax_backward(dx, dy, y)),
    Entry("rms_norm", 2, 1, rms, lambda out, x, w: K.rms_norm(out, x, weight=w, eps=EPS), vectors=1),
    Entry("layer_norm", 2, 1, layer_norm, lambda out, x, w, b: K.layer_norm(out, x, weight=w, bias=b, eps=EPS), vectors=2),
    Entry("rms_norm_backward", 3, 2, gradients(rms), lambda dx, dw, dy, x, w: K.rms_norm_backward(dx, dw, dy, x, w, eps=EPS), vectors=1,
          results=of_matrix_and(1)),
    Entry("layer_norm_backward", 3, 2, gradients(layer_norm),
          lambda dx, dw, db, dy, x, w, b: K.layer_norm_backward(dx, dw, db, dy, x, w, eps=EPS), vectors=2, results=of_matrix_and(2)),
    Entry("reduce_rows", 1, 1, lambda x: x.float().sum(1), lambda out, x: K.reduce_rows(out, x, kind="sum"), results=rows_of()),
    Entry("arg_extreme", 1, 1, lambda x: x.argmax(1), lambda out, x: K.arg_extreme(out, x, kind="max"), results=rows_of(torch.int64),
          integer=True),
    Entry("variance", 1, 1, lambda x: x.float().var(1), lambda out, x: K.variance(out, x), results=rows_of()),
    Entry("reduce_columns", 1, 1, lambda x: x.float().sum(0, keepdim=True), lambda out, x: K.reduce_columns(out, x[None], kind="sum"),
          results=columns_of()),
    Entry("arg_extreme_columns", 1, 1, lambda x: x.argmax(0, keepdim=True), lambda out, x: K.arg_extreme_columns(out, x[None], kind="max"),
          results=columns_of(torch.int64), integer=True),
    Entry("variance_columns", 1, 1, lambda x: x.float().var(0, keepdim=True), lambda out, x: K.variance_columns(out, x[None]),
          results=columns_of()),
    Entry("scan_rows", 2, 1, lambda x: x.cumsum(1), lambda out, x: K.scan_rows(out, x, kind="sum")),
    Entry("affine_gelu", 2, 1, lambda x, b, s: F.gelu((x + b) * s), lambda out, x, b, s: K.affine(out, x, bias=b, scale=s, activation="gelu"),
          vectors=2),
    Entry("swiglu", 3, 2, lambda g, u: F.silu(g) * u, lambda out, g, u: K.swiglu(out, g, u)),
    Entry("geglu_backward", 5, 3, gradients(lambda g, u: F.gelu(g) * u), lambda dg, du, dy, g, u: K.glu_backward(dg, du, dy, g, u, activation="gelu"),
          results=lambda rows, cols, dtype: [((rows, cols), dtype)] * 2),
]

# Of --shapes alone: places are those of equal elements in their order, which torch.topk does not promise.
IN_ORDER = [
    Entry("sort_rows", 2, 1, lambda x: torch.sort(x, dim=1, stable=True), lambda out, index, x: K.sort_rows(out, index, x),
          results=lambda rows, cols, dtype: [((rows, cols), dtype), ((rows, cols), torch.int64)], integer=True),
    Entry("sort_rows_alone", 2, 1, lambda x: torch.sort(x, 1).values, lambda out, x: K.sort_rows(out, None, x), integer=True),
] + [
    Entry(f"topk_rows_{k}", 1, 1, lambda x, k=k: torch.topk(x, k, 1).values, lambda out, index, x: K.topk_rows(out, index, x),
          results=lambda rows, cols, dtype, k=k: [((rows, k), dtype), ((rows, k), torch.int64)], integer=True) for k in (8, 64)
]


class Case:

    def __init__(self, entry, rows, cols, dtype, gap):
        self.entry, self.dtype = entry, dtype
        kind = str(dtype).removeprefix("torch.")
        self.name = f"{entry.name} {rows}x{cols} {kind}{f' of {cols + gap}' if gap else ''}"
        size = torch.empty(0, dtype=dtype).element_size()
        self.bytes = entry.moved * rows * cols * size
        self.sets = max(1, min(12, math.ceil(COLD_BYTES / self.bytes)))
        vector = lambda: torch.randn(cols, device="cuda").to(dtype)
        self.inputs = [[matrix(rows, cols, dtype, gap) for _ in range(entry.matrices)] + [vector() for _ in range(entry.vectors)]
                       for _ in range(self.sets)]
        self.outputs = [[torch.empty(shape, device="cuda", dtype=kind) for shape, kind in entry.results(rows, cols, dtype)]
                        for _ in range(self.sets)]
        half = torch.empty(max(1, self.bytes // 2), device="cuda", dtype=torch.int8)
        self.copied = [(torch.empty_like(half), half) for _ in range(min(self.sets, 4))]

    def works(self, function):
        return [lambda i=i: function(i) for i in range(self.sets)]

    def check(self):
        self.entry.call(*self.outputs[0], *self.inputs[0])
        exact = self.entry.torch_function(*(x.double() for x in self.inputs[0]))
        for out, wanted in zip(self.outputs[0], exact if isinstance(exact, (tuple, list)) else [exact]):
            if self.entry.integer:
                if not torch.equal(out.flatten(), wanted.flatten().to(out.dtype)):
                    raise RuntimeError("WRONG RESULT")
            elif not (error := harness.relative_error(out.flatten(), wanted.flatten())) < TOLERANCE[self.dtype]:
                raise RuntimeError(f"WRONG RESULT: {error}")


def compare(case, pairs, alone):
    """(The faster peer's time, or Tegula's once more, a copy's time) over Tegula's."""
    case.check()
    timing = harness.Interleaved("graph", case.sets, 0, max(case.sets, 6))
    ours = case.works(lambda i: case.entry.call(*case.outputs[i], *case.inputs[i]))
    arms = {"tegula": ours}
    if not alone:
        torch._dynamo.reset()
        compiled = torch.compile(case.entry.torch_function, dynamic=False)
        arms["torch"] = case.works(lambda i: case.entry.torch_function(*case.inputs[i]))
        arms["torch.compile"] = case.works(lambda i: compiled(*case.inputs[i]))
    arms["tegula again"] = ours
    arms["copy"] = case.works(lambda i: case.copied[i % len(case.copied)][0].copy_(case.copied[i % len(case.copied)][1]))
    figures = timing.rounds({name: timing.prepare(works) for name, works in arms.items()}, pairs)
    harness.print_figures(figures, lambda us: f"{case.bytes / us / 1e3:8.0f} GB/s")
    ratio = lambda name: harness.ratio(figures[name], figures["tegula"])["median"]
    return min(ratio(name) for name in (["tegula again"] if alone else ["torch", "torch.compile"])), ratio("copy")


def random_cases(count, seed):
    draw = random.Random(seed)
    while count > 0:
        entry, rows, cols = draw.choice(ENTRIES), draw.choice(ROWS), draw.choice(COLUMNS)
        dtype, gap = draw.choice([torch.float32, torch.bfloat16]), draw.choice([0, 0, 0, 8, 3])
        bytes_moved = entry.moved * rows * cols * (4 if dtype == torch.float32 else 2)
        if 1e6 <= bytes_moved <= 4e8:
            count -= 1
            yield lambda made=(entry, rows, cols, dtype, gap): Case(*made)


def cases_of_shapes(shapes, only):
    """All entries at shapes that are written as in a case's name."""
    for shape in shapes:
        extents, kind, *stride = shape.replace(" of ", " ").split()
        rows, cols = map(int, extents.split("x"))
        gap = int(stride[0]) - cols if stride else 0
        for entry in ENTRIES + IN_ORDER:
            if not only or any(text in f"{entry.name} {shape}" for text in only):
                yield lambda made=(entry, rows, cols, getattr(torch, kind), gap): Case(*made)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    harness.add_case_options(parser)
    parser.add_argument("--shapes", nargs="+", help="shapes, as they stand in names of cases")
    parser.add_argument("--alone", action="store_true")
    parser.set_defaults(pairs=9)
    options = parser.parse_args()
    found = {}

    def run(case):
        found[case.name] = compare(case, options.pairs, options.alone)

    cases = cases_of_shapes(options.shapes, options.only) if options.shapes else random_cases(options.count, options.seed)
    harness.run_cases(cases, options, run)
    if found:
        faster = [f for f, _ in found.values()]
        print(f"geometric mean {statistics.geometric_mean(faster):.3f} of {len(found)}, {sum(f < 0.98 for f in faster)} below 0.98:")
        for name, (f, copy) in sorted(found.items(), key=lambda item: item[1][0])[:25]:
            print(f"  {f:6.3f} of the faster peer, {copy:.3f} of the copy: {name}")


if __name__ == "__main__":
    main()
