#!/usr/bin/env python3
"""Kernels of inference engines: weights of 8 and 4 bits, batches of products, convolutions, tokens drawn from logits; and linear
layers with cross entropy in parts. The library's entries, tuned at their first call, beside torch's best and torch.compile.

    bench/inference.py [--only TEXT...] [--pairs 15] [--budget SECONDS]

Each result is checked against float32. Interleaved rounds (harness.py): short kernels as graphs over sets of weights that together
exceed the L2 cache, others with a flushed one. Figures are GB/s of what has to be moved, or TFLOP/s.
"""

import argparse
import time

import torch
import torch.nn.functional as F

import harness
import peer_kernels
from side_by_side import tegula

entries = tegula.kernels


class Case:
    """`name`, `bytes` or `flops`; sets: how many sets of operands works() goes round; works() gives the entry's calls, peers() (name,
    calls), found() and exact() what is compared."""
    flops, sets, tolerance = 0, 1, 5e-3

    def figure(self, us):
        return f"{self.flops / us / 1e6:8.1f} TFLOP/s" if self.flops else f"{self.bytes / us / 1e3:8.0f} GB/s"

    def check(self):
        for found, exact in zip(self.found(), self.exact()):
            error = harness.relative_error(found, exact)
            if not error < self.tolerance:
                raise RuntimeError(f"{self.name}: WRONG RESULT: {error}")


class Weights(Case):
    """M rows times weights of 8 or 4 bits; beside them torch's product of weights in 16 bits, its int4 kernel, and what torch.compile
    makes of dequantisation and product, and for one row a tuned Triton kernel."""

    def __init__(self, m, n, k, kind, group=0, dtype=torch.float16):
        self.name = f"{kind}{f' in groups of {group}' if group else ''} weights {m}x{n}x{k} {str(dtype)[6:]}"
        self.m, self.n, self.k, self.kind, self.group, self.dtype = m, n, k, kind, group, dtype

        self.cols, self.groups = k // 2 if kind == "int4" else k, k // group if group else 1
        self.bytes = n * self.cols + n * self.groups * 2 + 2 * m * (n + k)
        self.sets = max(1, -(-240_000_000 // self.bytes)) if m <= 64 else 1
        self.flops = 0 if m <= 64 else 2 * m * n * k
        self.a = torch.randn(m, k, device="cuda", dtype=dtype)
        self.w = [torch.randint(0, 256, (n, self.cols), device="cuda", dtype=torch.uint8) for _ in range(self.sets)]
        if kind == "int8":
            self.w = [w.view(torch.int8) for w in self.w]
        if kind == "float8":
            self.w = [torch.randn(n, k, device="cuda").to(torch.float8_e4m3fn) for _ in self.w]
        self.scales = ((torch.rand(n, self.groups, device="cuda") + 0.5) / 16).to(dtype)
        self.out = torch.empty(m, n, device="cuda", dtype=dtype)

    def works(self):
        return [
            lambda w=w: entries.quantised_gemm(self.out, self.a, w, self.scales, group=str(self.group)) for w in self.w
        ]

    def dense(self, w, scales, dtype):
        if self.kind == "int4":
            w = torch.stack([w & 15, w >> 4], -1).view(self.n, self.k).to(torch.int8)
            w = (w ^ 8) - 8
        return (w.to(dtype).view(self.n, self.groups, -1) * scales.to(dtype)[:, :, None]).view(self.n, self.k)

    def found(self):
        self.works()[0]()
        return [self.out]

    def exact(self):
        return [self.a.float() @ self.dense(self.w[0], self.scales, torch.float32).T]

    def peers(self):
        compiled = torch.compile(lambda a, w, s: a @ self.dense(w, s, self.dtype).T, dynamic=False)
        yield "torch.compile", [lambda w=w: compiled(self.a, w, self.scales) for w in self.w]
        if self.kind == "int4" and self.group in (32, 64, 128):
            a = self.a.bfloat16()
            packed = [torch._convert_weight_to_int4pack(w, 8) for w in self.w]
            scales = torch.ones(self.groups, self.n, 2, device="cuda", dtype=torch.bfloat16)
            yield "torch int4", [lambda w=w: torch._weight_int4pack_mm(a, w, self.group, scales) for w in packed]
        if self.kind == "int4" and self.group and self.m == 1:
            out = torch.zeros(self.n, device="cuda")
            grid = lambda config: (self.n // config["N_TILE"], config["SPLITS"])
            yield "Triton", [lambda w=w: peer_kernels.int4_row[grid](out, self.a, w, self.scales, self.n, self.k, self.group) for w in self.w]
        whole = [self.dense(w, self.scales, self.dtype) for w in self.w[:max(1, self.sets // (4 if self.kind == "int4" else 2))]]
        yield "16 bits", [lambda i=i: self.a @ whole[i % len(whole)].T for i in range(self.sets)]


class Batched(Case):

    def __init__(self, batch, m, n, k, transposed):
        self.name = f"{batch} products of {m}x{n}x{k}{', b transposed' if transposed else ''}"
        self.flops = 2 * batch * m * n * k
        self.a = torch.randn(batch, m, k, device="cuda", dtype=torch.bfloat16)
        self.b = torch.randn(batch, n, k, device="cuda", dtype=torch.bfloat16).transpose(1, 2) if transposed else torch.randn(
            batch, k, n, device="cuda", dtype=torch.bfloat16)
        self.out = torch.empty(batch, m, n, device="cuda", dtype=torch.bfloat16)

    def works(self):
        return [lambda: entries.batched_gemm(self.out, self.a, self.b)]

    def found(self):
        self.works()[0]()
        return [self.out]

    def exact(self):
        return [self.a.float() @ self.b.float()]

    def peers(self):
        yield "torch.bmm", [lambda: torch.bmm(self.a, self.b, out=self.out)]


class Conv2d(Case):

    def __init__(self, batch, size, channels, outputs, kernel, stride=1, groups=1):
        self.name = f"conv {kernel}x{kernel} / {stride}, {batch}x{size}x{size}x{channels} to {outputs}{f', {groups} groups' if groups > 1 else ''}, bias, ReLU"
        self.stride, self.padding, self.groups = stride, kernel // 2, groups
        channels_last = lambda *shape: torch.randn(*shape, device="cuda", dtype=torch.float16).to(memory_format=torch.channels_last)
        self.x = channels_last(batch, channels, size, size)
        self.w = channels_last(outputs, channels // groups, kernel, kernel) / (kernel * channels**0.5)
        self.bias = torch.randn(outputs, device="cuda", dtype=torch.float16)
        of = (size + 2 * self.padding - kernel) // stride + 1
        self.out = torch.empty(batch, of, of, outputs, device="cuda", dtype=torch.float16)
        self.flops = 2 * batch * of * of * outputs * kernel * kernel * channels // groups

    def works(self):
        x, w = self.x.permute(0, 2, 3, 1), self.w.permute(0, 2, 3, 1)
        s, p = self.stride, self.padding
        return [
            lambda: entries.conv2d(self.out, x, w, self.bias, stride_h=s, stride_w=s, padding_h=p, padding_w=p, groups=self.groups,
                                   epilogue="relu")
        ]

    def convolve(self, x, w, bias):
        return F.relu(F.conv2d(x, w, bias, self.stride, self.padding, groups=self.groups))

    def found(self):
        self.works()[0]()
        return [self.out]

    def exact(self):
        return [self.convolve(self.x.float(), self.w.float(), self.bias.float()).permute(0, 2, 3, 1)]

    def peers(self):
        torch.backends.cudnn.benchmark = True
        compiled = torch.compile(self.convolve, dynamic=False)
        yield "torch", [lambda: self.convolve(self.x, self.w, self.bias)]
        yield "torch.compile", [lambda: compiled(self.x, self.w, self.bias)]
        yield "conv alone", [lambda: F.conv2d(self.x, self.w, None, self.stride, self.padding, groups=self.groups)]


class LinearCrossEntropy(Case):
    """Losses and gradients; torch has all logits at a time."""
    tolerance = 2e-2

    def __init__(self, rows, k, vocabulary, chunk):
        self.name = f"linear + cross entropy step {rows}x{k} by {vocabulary}, {chunk} rows at a time"
        self.flops = 6 * rows * k * vocabulary
        self.x = torch.randn(rows, k, device="cuda", dtype=torch.bfloat16)
        self.w = torch.randn(vocabulary, k, device="cuda", dtype=torch.bfloat16) / k**0.5
        self.targets = torch.randint(0, vocabulary, (rows,), device="cuda")
        self.losses = torch.empty(rows, device="cuda")
        self.dx, self.dw = torch.empty_like(self.x), torch.empty(vocabulary, k, device="cuda")
        self.logits = torch.empty(chunk, vocabulary, device="cuda", dtype=torch.bfloat16)

    def works(self):
        return [lambda: entries.linear_cross_entropy(self.losses, self.dx, self.dw, self.x, self.w, self.targets, self.logits, mean=True)]

    def step(self, function, x, w):
        return torch.autograd.grad(function(x, w), (x, w))

    def found(self):
        self.works()[0]()
        return [self.losses.sum(), self.dx, self.dw]

    def exact(self):
        x, w = self.x.float().requires_grad_(), self.w.float().requires_grad_()
        loss = F.cross_entropy(x @ w.T, self.targets)
        return [loss.detach(), *torch.autograd.grad(loss, (x, w))]

    def peers(self):
        x, w = self.x.clone().requires_grad_(), self.w.clone().requires_grad_()
        function = lambda x, w: F.cross_entropy((x @ w.T).float(), self.targets)
        compiled = torch.compile(function, dynamic=False)
        yield "torch.compile", [lambda: self.step(compiled, x, w)]
        yield "torch", [lambda: self.step(function, x, w)]


class Sample(Case):
    """Top-p sampling; torch sorts."""

    def __init__(self, rows, cols, p, dtype=torch.bfloat16):
        self.name = f"sample of {rows}x{cols} {str(dtype)[6:]}, top-p {p}"
        self.bytes = rows * cols * dtype.itemsize
        self.x = torch.randn(rows, cols, device="cuda", dtype=dtype) * 3
        self.p, self.top_p = p, torch.full((rows,), p, device="cuda")
        self.out = torch.empty(rows, device="cuda", dtype=torch.int64)

    def works(self):
        return [lambda: entries.sample_rows(self.out, self.x, top_p=self.top_p, seed=7)]

    def check(self):
        """Each token is one of those that may be drawn."""
        self.works()[0]()
        p, place = torch.softmax(self.x.double(), 1).sort(1, descending=True)
        before = p.cumsum(1) - p
        last = p.masked_fill(before >= self.p + 1e-5, 2.0).amin(1)
        if not (torch.softmax(self.x.double(), 1).gather(1, self.out[:, None])[:, 0] >= last).all():
            raise RuntimeError(f"{self.name}: WRONG RESULT")

    def peers(self):

        def sample(x):
            p, place = torch.softmax(x.float(), 1).sort(1, descending=True)
            p = p.masked_fill(p.cumsum(1) - p >= self.p, 0.0)
            drawn = (p / torch.empty_like(p).exponential_()).argmax(1, keepdim=True)
            return place.gather(1, drawn)

        compiled = torch.compile(sample, dynamic=False)
        yield "torch", [lambda: sample(self.x)]
        yield "torch.compile", [lambda: compiled(self.x)]


CASES = [
    lambda: Weights(1, 4096, 14336, "int4", 128), lambda: Sample(64, 128256, 0.9), lambda: Conv2d(32, 28, 128, 128, 3),
    lambda: Batched(256, 128, 128, 1024, True), lambda: LinearCrossEntropy(8192, 4096, 32000, 4096), lambda: Weights(16, 4096, 14336, "int4", 128),
    lambda: Weights(1, 4096, 14336, "int8"), lambda: Conv2d(32, 56, 64, 64, 3), lambda: Batched(16, 2048, 2048, 128, True),
    lambda: Weights(64, 4096, 14336, "int4", 128), lambda: Weights(1, 14336, 4096, "int4", 128), lambda: Conv2d(32, 56, 256, 64, 1),
    lambda: Sample(1, 128256, 0.9), lambda: Conv2d(32, 14, 256, 256, 3), lambda: Weights(16, 14336, 4096, "int8"),
    lambda: Batched(64, 512, 512, 512, False), lambda: Conv2d(32, 224, 3, 64, 7, 2), lambda: Weights(1, 4096, 14336, "float8"),
    lambda: Weights(1, 4096, 14336, "int4", 128, torch.bfloat16), lambda: Weights(4096, 4096, 4096, "int4", 128),
    lambda: LinearCrossEntropy(4096, 4096, 131072, 2048), lambda: Sample(256, 32000, 0.9), lambda: Conv2d(32, 28, 256, 256, 3, 1, 32),
    lambda: Conv2d(8, 64, 320, 320, 3)
]


def arms_of(case, works):
    """Tegula's calls, twice, and those of all peers that run, by name."""
    arms = {"tegula": works, "tegula again": works}
    for name, calls in case.peers():
        try:
            calls[0]()
            arms[name] = calls
        except Exception as error:
            print(f"  {name}: {str(error).splitlines()[0][:120]}")
    return arms


def compare(case, pairs):
    works = case.works()
    begun = time.perf_counter()
    works[0]()
    torch.cuda.synchronize()
    tuned = time.perf_counter() - begun
    case.check()
    arms = arms_of(case, works)
    flush = max(2 * torch.cuda.get_device_properties(0).L2_cache_size, 256 << 20)
    timer = harness.Interleaved("graph" if case.sets > 1 else "flush", case.sets, flush, 20 if case.sets > 1 else 3)
    prepared = {name: timer.prepare(calls) for name, calls in arms.items()}
    timer.rounds(prepared, 2)
    figures = timer.rounds(prepared, pairs)
    print(f"  tuned in {tuned:.1f} s")
    harness.print_figures(figures, case.figure)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    harness.add_case_options(parser)
    options = parser.parse_args()
    harness.run_cases(CASES, options, lambda case: compare(case, options.pairs))


if __name__ == "__main__":
    main()
