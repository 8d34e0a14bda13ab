#!/usr/bin/env python3
"""The library's entries whose operands are no two or three equal matrices, at random shapes, beside torch and torch.compile.

    bench/calls.py [--count 100] [--seed 1] [--only TEXT...] [--pairs 9] [--budget SECONDS]

Products of all layouts and of batches, weights of 8 and 4 bits, convolutions, tokens drawn from logits (inference.py's cases at sizes
that few choose), losses, norms of channels, embeddings and sums by index, rotary embedding, dropout, quantisation, sort and topk,
histograms. Entries are tuned at their first call; each result is checked. A graph goes round sets of operands that exceed the L2 cache
together (harness.py). Figures are the time of the fastest of torch's ways over Tegula's, medians of the rounds' ratios.
"""

import argparse
import math
import random
import statistics

import torch
import torch.nn.functional as F

import harness
from inference import arms_of, Batched, Case, Conv2d, Sample, Weights
from side_by_side import tegula

K = tegula.kernels
COLD_BYTES = 150e6  # three times the L2 cache
EPS = 1e-5


def normal(*shape, dtype=torch.bfloat16):
    return torch.randn(*shape, device="cuda").to(dtype)


class Call(Case):
    """An entry by functions: make() gives a set of operands; ours(results, operands) writes results(operands), peer(*operands) returns
    them. `bytes`: what has to be moved. Integers are compared for equality."""

    def __init__(self, name, moved, make, results, ours, peer, tolerance=1e-2, flops=0, exact=None, compiled=True):
        self.name, self.bytes, self.flops, self.tolerance = name, moved, flops, tolerance
        self.ours, self.peer, self.exact_peer, self.compiled = ours, peer, exact or peer, compiled
        self.sets = max(1, min(12, math.ceil(COLD_BYTES / moved)))
        self.operands = [make() for _ in range(self.sets)]
        self.new_results = results
        self.results = [results(*operands) for operands in self.operands]

    def works(self):
        return [lambda r=r, o=o: self.ours(r, o) for r, o in zip(self.results, self.operands)]

    def check(self):
        wide = [x.double() if isinstance(x, torch.Tensor) and x.is_floating_point() else x for x in self.operands[0]]
        exact = self.exact_peer(*wide)
        self.results[0] = self.new_results(*self.operands[0])  # some are sums with what stood there
        self.works()[0]()
        for found, wanted in zip(self.results[0], exact if isinstance(exact, (tuple, list)) else [exact]):
            if wanted is None:
                continue
            if not found.is_floating_point():
                if not torch.equal(found.flatten(), wanted.flatten().to(found.dtype)):
                    raise RuntimeError(f"{self.name}: WRONG RESULT")
            elif not (error := harness.relative_error(found.flatten(), wanted.flatten())) < self.tolerance:
                raise RuntimeError(f"{self.name}: WRONG RESULT: {error}")

    def peers(self):
        yield "torch", [lambda o=o: self.peer(*o) for o in self.operands]
        if self.compiled:
            function = torch.compile(self.peer, dynamic=False)
            yield "torch.compile", [lambda o=o: function(*o) for o in self.operands]


def like(x, *shape, dtype=None):
    return torch.empty(shape or x.shape, device="cuda", dtype=dtype or x.dtype)


# ---- Random calls, each from a random.Random.


def product(draw):
    m, n, k = draw.choice([5, 48, 200, 777, 1500, 4096]), draw.choice([64, 320, 1000, 3072, 8192]), draw.choice([64, 320, 1000, 4096, 11008])
    a_along_m, b_along_n, dtype = draw.choice([False, True]), draw.choice([False, True]), draw.choice([torch.float16, torch.bfloat16])

    def make():
        a = normal(k, m, dtype=dtype).T if a_along_m else normal(m, k, dtype=dtype)
        b = normal(k, n, dtype=dtype) if b_along_n else normal(n, k, dtype=dtype).T
        return a, b / k**0.5

    return Call(f"gemm {m}x{n}x{k}, a along {'m' if a_along_m else 'k'}, b along {'n' if b_along_n else 'k'}, {str(dtype)[6:]}",
                2 * (m * k + k * n + m * n), make, lambda a, b: [like(a, m, n)], lambda r, o: K.gemm(r[0], *o), torch.mm, flops=2 * m * n * k,
                compiled=False)


def batched(draw):
    return Batched(draw.choice([3, 16, 50, 128]), *(draw.choice([64, 100, 256, 500, 1024]) for _ in range(3)), draw.choice([False, True]))


def weights(draw):
    kind = draw.choice(["int8", "int4", "float8"])
    n, k = draw.choice([(4096, 4096), (11008, 4096), (4096, 11008), (5120, 13824), (1024, 8192), (6144, 2048), (3072, 3072), (28672, 8192)])
    return Weights(draw.choice([1, 2, 5, 8, 16, 32, 64, 100]), n, k, kind, draw.choice([32, 64, 128]) if kind == "int4" else 0,
                   draw.choice([torch.float16, torch.bfloat16]))


def convolution(draw):
    groups = draw.choice([1, 1, 1, 4])
    return Conv2d(draw.choice([1, 4, 16]), draw.choice([7, 14, 30, 56, 100]), draw.choice([32, 64, 192, 320]), draw.choice([32, 96, 256, 320]),
                  draw.choice([1, 3, 3, 5]), draw.choice([1, 1, 2]), groups)


def sampled(draw):
    return Sample(draw.choice([1, 4, 17, 64, 200]), draw.choice([5000, 32000, 50257, 100352, 151936]), draw.choice([0.5, 0.9, 0.95]))


def cross_entropy(draw):
    rows, cols = draw.choice([100, 1000, 4096, 8000]), draw.choice([1000, 32000, 50257, 128256])
    dtype = draw.choice([torch.float32, torch.bfloat16])

    def make():
        return normal(rows, cols, dtype=dtype), torch.randint(0, cols, (rows,), device="cuda")

    def peer(x, t):
        x = x.detach().requires_grad_()
        with torch.enable_grad():
            losses = F.cross_entropy(x.float() if x.dtype != torch.float64 else x, t, reduction="none")
        return losses, *torch.autograd.grad(losses.sum(), x)

    # The gradient replaces the logits.
    def ours(r, o):
        K.cross_entropy(r[0], r[1], o[1])

    return Call(f"cross_entropy with gradient {rows}x{cols} {str(dtype)[6:]}", 2 * rows * cols * dtype.itemsize, make,
                lambda x, t: [like(x, rows, dtype=torch.float32), x.clone()], ours, peer)


def images(draw):
    batch, channels, spatial = draw.choice([1, 8, 32]), draw.choice([64, 320, 512, 1280]), draw.choice([49, 64, 784, 1024, 4096])
    return batch, channels, spatial, draw.choice([torch.float32, torch.float16])


def group_norm(draw):
    batch, channels, spatial, dtype = images(draw)
    make = lambda: (normal(batch, channels, spatial, dtype=dtype), normal(channels, dtype=dtype), normal(channels, dtype=dtype))
    return Call(f"group_norm, silu {batch}x{channels}x{spatial} {str(dtype)[6:]}", 2 * batch * channels * spatial * dtype.itemsize, make,
                lambda x, w, b: [like(x)], lambda r, o: K.group_norm(r[0], o[0], 32, weight=o[1], bias=o[2], eps=EPS, activation="silu"),
                lambda x, w, b: F.silu(F.group_norm(x, 32, w, b, EPS)))


def group_norm_backward(draw):
    batch, channels, spatial, dtype = images(draw)
    make = lambda: tuple(normal(batch, channels, spatial, dtype=dtype) for _ in range(2)) + (normal(channels, dtype=dtype),)

    def peer(dy, x, w):
        x, w, b = x.detach().requires_grad_(), w.detach().requires_grad_(), torch.zeros_like(w, requires_grad=True)
        with torch.enable_grad():
            y = F.group_norm(x, 32, w, b, EPS)
        return torch.autograd.grad(y, (x, w, b), dy)

    return Call(f"group_norm_backward {batch}x{channels}x{spatial} {str(dtype)[6:]}", 3 * batch * channels * spatial * dtype.itemsize, make,
                lambda dy, x, w: [like(x), like(w), like(w)],
                lambda r, o: K.group_norm_backward(r[0], r[1], r[2], o[0], o[1], 32, weight=o[2], eps=EPS), peer, tolerance=2e-2)


def batch_norm(draw):
    batch, channels, spatial, dtype = images(draw)
    vector = lambda: normal(channels, dtype=dtype)
    make = lambda: (normal(batch, channels, spatial, dtype=dtype), vector(), vector().abs() + 0.5, vector(), vector())
    return Call(f"batch_norm, relu {batch}x{channels}x{spatial} {str(dtype)[6:]}", 2 * batch * channels * spatial * dtype.itemsize, make,
                lambda x, *_: [like(x)], lambda r, o: K.batch_norm(r[0], *o[:3], weight=o[3], bias=o[4], eps=EPS, activation="relu"),
                lambda x, m, v, w, b: F.relu(F.batch_norm(x, m, v, w, b, False, 0.0, EPS)))


def table(draw):
    return draw.choice([100, 1000, 32000]), draw.choice([64, 200, 768, 4096]), draw.choice([500, 4096, 20000]), draw.choice(
        [torch.float32, torch.bfloat16])


def embedding(draw):
    entries, cols, rows, dtype = table(draw)
    make = lambda: (normal(entries, cols, dtype=dtype), torch.randint(0, entries, (rows,), device="cuda"))
    return Call(f"embedding {entries}x{cols}, {rows} rows {str(dtype)[6:]}", 2 * rows * cols * dtype.itemsize, make,
                lambda t, i: [like(t, rows, cols)], lambda r, o: K.embedding(r[0], *o), lambda t, i: F.embedding(i, t))


def index_add(draw):
    entries, cols, rows, dtype = table(draw)
    make = lambda: (normal(entries, cols, dtype=torch.float32), normal(rows, cols, dtype=dtype), torch.randint(0, entries, (rows,), device="cuda"))
    peer = lambda t, x, i: t.clone().index_add_(0, i, x.to(t.dtype))
    return Call(f"index_add {entries}x{cols}, {rows} rows {str(dtype)[6:]}", rows * cols * (4 + dtype.itemsize), make, lambda t, x, i: [t.clone()],
                lambda r, o: K.index_add(r[0], *o[1:]), peer, tolerance=1e-4, exact=peer)


def embedding_backward(draw):
    entries, cols, rows, dtype = table(draw)
    make = lambda: (normal(rows, cols, dtype=dtype), torch.randint(0, entries, (rows,), device="cuda"))

    def peer(dout, i):
        return torch.ops.aten.embedding_dense_backward(dout, i, entries, -1, False)

    return Call(f"embedding_backward {entries}x{cols}, {rows} rows {str(dtype)[6:]}", (rows + entries) * cols * dtype.itemsize, make,
                lambda dout, i: [torch.zeros(entries, cols, device="cuda", dtype=dtype)], lambda r, o: K.embedding_backward(r[0], *o), peer)


def rope(draw):
    tokens, heads, size = draw.choice([100, 1000, 8192]), draw.choice([1, 8, 32]), draw.choice([64, 80, 128])
    interleaved, dtype = draw.choice([False, True]), draw.choice([torch.float16, torch.bfloat16])
    half = size // 2
    make = lambda: (normal(tokens, heads, size, dtype=dtype), normal(tokens, half, dtype=torch.float32), normal(tokens, half, dtype=torch.float32))

    def peer(x, cos, sin):
        f = x.to(cos.dtype)
        a, b = (f[..., 0::2], f[..., 1::2]) if interleaved else f.chunk(2, -1)
        c, s = cos[:, None], sin[:, None]
        parts = a * c - b * s, a * s + b * c
        return (torch.stack(parts, -1).flatten(-2) if interleaved else torch.cat(parts, -1)).to(x.dtype)

    return Call(f"rope {tokens}x{heads}x{size}{' interleaved' if interleaved else ''} {str(dtype)[6:]}", 4 * tokens * heads * size + 8 * tokens * half,
                make, lambda x, c, s: [like(x)], lambda r, o: K.rope(r[0], *o, interleaved=interleaved), peer)


def matrix_of(draw, most=2e8):
    while True:
        rows, cols = draw.choice([3, 64, 500, 4096, 30000]), draw.choice([100, 1000, 2048, 4096, 10000, 50257])
        if 1e5 <= rows * cols <= most / 4:
            return rows, cols, draw.choice([torch.float32, torch.bfloat16])


def dropout(draw):
    rows, cols, dtype = matrix_of(draw)
    make = lambda: (normal(rows, cols, dtype=dtype),)

    def exact(x):  # of what Tegula keeps, as torch draws other numbers
        out = like(x, dtype=dtype)
        K.dropout(out, x.to(dtype), p=0.25, seed=5)
        kept = out != 0
        if not abs(kept.double().mean().item() - 0.75) < 0.01:
            raise RuntimeError("dropout keeps another share")
        return torch.where(kept, x / 0.75, 0.0)

    return Call(f"dropout {rows}x{cols} {str(dtype)[6:]}", 2 * rows * cols * dtype.itemsize, make, lambda x: [like(x)],
                lambda r, o: K.dropout(r[0], o[0], p=0.25, seed=5), lambda x: F.dropout(x, 0.25), exact=exact)


def quantise(draw):
    rows, cols, dtype = matrix_of(draw)
    kind = draw.choice([torch.float8_e4m3fn, torch.int8])
    make = lambda: (normal(rows, cols, dtype=dtype),)
    largest = 127.0 if kind == torch.int8 else 448.0

    def peer(x):
        f = x.float()
        scale = f.abs().amax(1) / largest
        q = f / scale[:, None]
        return scale, (q.round() if kind == torch.int8 else q).to(kind)

    return Call(f"quantise_rows {rows}x{cols} {str(dtype)[6:]} to {str(kind)[6:]}", rows * cols * (dtype.itemsize + 1), make,
                lambda x: [like(x, rows, dtype=torch.float32), like(x, rows, cols, dtype=kind)],
                lambda r, o: K.quantise_rows(r[1], r[0], o[0]), peer, exact=lambda x: (peer(x)[0], None))


def sort(draw):
    rows, cols, dtype = matrix_of(draw)
    make = lambda: (normal(rows, cols, dtype=dtype),)
    return Call(f"sort_rows {rows}x{cols} {str(dtype)[6:]}", rows * cols * (2 * dtype.itemsize + 8), make,
                lambda x: [like(x), like(x, dtype=torch.int64)], lambda r, o: K.sort_rows(r[0], r[1], o[0]),
                lambda x: torch.sort(x, dim=1, stable=True), compiled=False)


def topk(draw):
    rows, cols, dtype = matrix_of(draw)
    k = draw.choice([1, 2, 5, 10, 50, 100])
    make = lambda: (normal(rows, cols, dtype=dtype),)
    return Call(f"topk_rows {k} of {rows}x{cols} {str(dtype)[6:]}", rows * cols * dtype.itemsize, make,
                lambda x: [like(x, rows, k), like(x, rows, k, dtype=torch.int64)], lambda r, o: K.topk_rows(r[0], r[1], o[0]),
                lambda x: torch.topk(x, k, 1), compiled=False, exact=lambda x: (torch.topk(x, k, 1).values, None))


def histogram(draw):
    n, bins = draw.choice([100_000, 1_000_000, 30_000_000]), draw.choice([10, 100, 1000])
    make = lambda: (torch.rand(1, n, device="cuda"),)
    peer = lambda x: torch.histc(x, bins, 0.0, 1.0)
    return Call(f"histogram of {n}, {bins} bins", 4 * n, make, lambda x: [torch.zeros(bins, device="cuda", dtype=torch.int32)],
                lambda r, o: K.histogram(r[0].zero_(), o[0]), peer, exact=lambda x: peer(x.float()), compiled=False)


KINDS = [product, product, batched, weights, weights, convolution, sampled, cross_entropy, group_norm, group_norm_backward, batch_norm, embedding,
         embedding_backward, index_add, rope, dropout, quantise, sort, topk, topk, histogram]


def compare(case, pairs):
    works = case.works()
    works[0]()
    case.check()
    arms = arms_of(case, works)
    flush = 0 if case.sets > 1 else max(2 * torch.cuda.get_device_properties(0).L2_cache_size, 256 << 20)
    timing = harness.Interleaved("flush" if flush else "graph", case.sets, flush, 3 if flush else max(case.sets, 6))
    prepared = {name: timing.prepare(calls) for name, calls in arms.items()}
    figures = timing.rounds(prepared, pairs)
    harness.print_figures(figures, case.figure)
    return min(harness.ratio(figures[name], figures["tegula"])["median"] for name in arms if not name.startswith("tegula"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    harness.add_case_options(parser)
    parser.set_defaults(pairs=9)
    options = parser.parse_args()
    draw, found = random.Random(options.seed), {}
    torch.backends.cudnn.benchmark = True

    def run(case):
        torch._dynamo.reset()
        found[case.name] = compare(case, options.pairs)

    seeds = [(draw.choice(KINDS), draw.getrandbits(32)) for _ in range(options.count)]
    harness.run_cases((lambda kind=kind, seed=seed: kind(random.Random(seed)) for kind, seed in seeds), options, run)
    if found:
        print(f"geometric mean {statistics.geometric_mean(found.values()):.3f} of {len(found)}, {sum(f < 0.98 for f in found.values())} below 0.98:")
        for name, f in sorted(found.items(), key=lambda item: item[1])[:40]:
            print(f"  {f:6.3f} {name}")


if __name__ == "__main__":
    main()
