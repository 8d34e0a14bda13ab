#!/usr/bin/env python3
"""Kernels made of C++ functions (elementwise_kernel, row_kernel, products with dropout on their epilogue) beside
torch.compile and a copy of as many bytes.

    bench/lambda_kernels.py LIBRARY [--only TEXT...] [--pairs 15] [--budget SECONDS]

LIBRARY is build/release/bench/lambda_kernels.so. Each kernel is tuned by its first launch, checked against double
precision, and then timed in interleaved rounds with a flushed cache. Figures are GB/s of the bytes that the computation
has to move: each input read and each output written once.
"""

import argparse
import ctypes
import time

import torch
import torch.nn.functional as F

import harness
from side_by_side import tegula

BF16 = torch.bfloat16
EPS = 1e-6


def normal(*shape):
    return torch.randn(*shape, device="cuda", dtype=BF16)


def rms_quantised(x, residual, weight):
    h = x.float() + residual.float()
    y = h * torch.rsqrt((h * h).mean(1, keepdim=True) + EPS) * weight.float()
    scale = (y.abs().amax(1, keepdim=True) / 127).clamp(min=1e-12)
    return (y / scale).round().clamp(-128, 127).to(torch.int8), h.to(BF16), scale


def modulated(x, branch, gate, scale, shift):
    h = x.float() + gate.float() * branch.float()
    c = h - h.mean(-1, keepdim=True)
    y = c * torch.rsqrt((c * c).mean(-1, keepdim=True) + EPS) * (1 + scale.float()) + shift.float()
    most = (y.abs().amax(-1, keepdim=True) / 448).clamp(min=1e-12)
    return (y / most).to(torch.float8_e4m3fn), h.to(BF16), most


def gated(x, y, bias):
    return ((F.silu(x.float() + bias.float())) * y.float()).to(BF16)


class Case:
    """Name, C function, torch's function, its inputs, outputs to fill, and the extents that the C function takes."""

    def __init__(self, name, symbol, function, inputs, outputs, extents):
        self.name, self.symbol, self.function, self.inputs = name, symbol, function, inputs
        self.outputs, self.extents = outputs, extents
        self.bytes = sum(t.numel() * t.element_size() for t in [*inputs, *outputs])

    def work(self, library):
        call = getattr(library, self.symbol)
        call.restype = ctypes.c_char_p
        pointers = (ctypes.c_void_p * 16)(*(t.data_ptr() for t in [*self.outputs, *self.inputs]))
        extents = [ctypes.c_int64(n) for n in self.extents]

        def launch():
            error = call(pointers, *extents, ctypes.c_void_p(torch.cuda.current_stream().cuda_stream))
            if error:
                raise RuntimeError(error.decode())

        return launch

    def peer(self):
        compiled = torch.compile(self.function, dynamic=False)
        return lambda: compiled(*self.inputs)

    def check(self):
        exact = self.function(*self.inputs)
        exact = exact if isinstance(exact, tuple) else (exact,)
        for i, (found, wanted) in enumerate(zip(self.outputs, exact)):
            difference = (found.float() - wanted.float()).abs()
            allowed = {torch.int8: 1.0, torch.float8_e4m3fn: 32.0}.get(found.dtype, 8e-3 * max(1.0, wanted.float().abs().max().item()))
            if not difference.max().item() <= allowed or (found.dtype.itemsize == 1 and (difference > 0).float().mean() > 0.01):
                raise RuntimeError(f"{self.name}: WRONG RESULT in output {i}: {difference.max().item()}")


class TrainingStep:
    """dropout(gelu(linear(x))), forward and backward, with gradients of x, weight and bias; checked against the mask that
    kernels.dropout makes of the same seed."""
    p, seed = 0.1, 1234

    def __init__(self, m, n, k):
        self.name = f"dropout(gelu(linear)) step {m}x{n}x{k} bf16"
        self.inputs = [normal(m, k), normal(n, k) / k**0.5, normal(n)]
        self.dout = normal(m, n)
        self.out, self.hidden, self.dhidden = (torch.empty(m, n, device="cuda", dtype=BF16) for _ in range(3))
        self.gradients = [torch.empty_like(t) for t in self.inputs]
        self.bytes = 2 * (5 * m * n + 4 * m * k + 3 * n * k)

    def work(self, library):
        entries = tegula.kernels
        (x, weight, bias), (dx, dweight, dbias) = self.inputs, self.gradients

        def step():
            entries.linear_dropout(self.out, self.hidden, x, weight, self.p, self.seed, bias)
            entries.linear_dropout_backward(self.dhidden, self.dout, self.hidden, self.p, self.seed)
            entries.gemm(dx, self.dhidden, weight)
            entries.gemm(dweight, self.dhidden, x, transpose_a=True)
            entries.reduce_columns(dbias, self.dhidden)

        return step

    def check(self):
        mask = torch.ones_like(self.out, dtype=torch.float32)
        tegula.kernels.dropout(mask, mask, p=self.p, seed=self.seed)
        inputs = [t.float().requires_grad_() for t in self.inputs]
        out = F.gelu(F.linear(*inputs)) * mask
        exact = [out, *torch.autograd.grad(out, inputs, self.dout.float())]
        for i, (found, wanted) in enumerate(zip([self.out, *self.gradients], exact)):
            error = harness.relative_error(found, wanted)
            if not error < 2e-2:
                raise RuntimeError(f"{self.name}: WRONG RESULT {i}: {error}")

    def peer(self):
        inputs = [t.clone().requires_grad_() for t in self.inputs]
        forward = torch.compile(lambda x, w, b: F.dropout(F.gelu(F.linear(x, w, b)), self.p), dynamic=False)
        return lambda: torch.autograd.grad(forward(*inputs), inputs, self.dout)


def chain(rows, cols):
    x, residual, weight = normal(rows, cols), normal(rows, cols), normal(cols)
    outputs = [torch.empty(rows, cols, device="cuda", dtype=torch.int8), torch.empty(rows, cols, device="cuda", dtype=BF16),
               torch.empty(rows, 1, device="cuda")]
    return Case(f"residual + RMSNorm + int8 {rows}x{cols}", "bench_norm_quantise", rms_quantised, [x, residual, weight], outputs, [rows, cols])


def modulation(batch, tokens, cols):
    whole, each = (batch, tokens, cols), (batch, 1, cols)
    outputs = [torch.empty(*whole, device="cuda", dtype=torch.float8_e4m3fn), torch.empty(*whole, device="cuda", dtype=BF16),
               torch.empty(batch, tokens, 1, device="cuda")]
    inputs = [normal(*whole), normal(*whole), normal(*each), normal(*each), normal(*each)]
    return Case(f"gate + residual + LayerNorm + modulation + float8 {batch}x{tokens}x{cols}", "bench_modulate", modulated, inputs,
                outputs, [batch, tokens, cols])


def elementwise(rows, cols, transposed):
    x = normal(cols, rows).t() if transposed else normal(rows, cols)
    inputs = [x, normal(rows, cols), normal(cols)]
    return Case(f"silu(x + bias) * y {rows}x{cols}{', x transposed' if transposed else ''}", "bench_gated", gated, inputs,
                [torch.empty(rows, cols, device="cuda", dtype=BF16)], [rows, cols, int(transposed)])


CASES = [
    lambda: elementwise(8192, 8192, False), lambda: elementwise(8192, 8192, True), lambda: elementwise(16384, 2056, True),
    lambda: chain(16384, 4096), lambda: chain(8192, 8192), lambda: modulation(8, 4096, 3072), lambda: chain(65536, 1000),
    lambda: chain(2048, 65536), lambda: modulation(16, 1024, 1152), lambda: chain(131072, 256),
    lambda: TrainingStep(8192, 16384, 4096), lambda: TrainingStep(4096, 4096, 4096)
]


def compare(case, library, pairs):
    work = case.work(library)
    begun = time.perf_counter()
    work()
    torch.cuda.synchronize()
    print(f"  tuned in {time.perf_counter() - begun:.1f} s", flush=True)
    case.check()
    peer = case.peer()
    peer()
    source = torch.empty(case.bytes // 4, dtype=torch.int16, device="cuda")
    target = torch.empty_like(source)
    arms = {"tegula": work, "tegula again": work, "torch.compile": peer, "copy": lambda: target.copy_(source)}
    flush = max(2 * torch.cuda.get_device_properties(0).L2_cache_size, 256 << 20)
    timer = harness.Interleaved("flush", 1, flush, 3)
    prepared = {name: timer.prepare([arm]) for name, arm in arms.items()}
    timer.rounds(prepared, 2)
    figures = timer.rounds(prepared, pairs)
    harness.print_figures(figures, lambda us: f"{case.bytes / us / 1e3:8.0f} GB/s")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library")
    harness.add_case_options(parser)
    options = parser.parse_args()
    library = ctypes.CDLL(options.library)
    harness.run_cases(CASES, options, lambda case: compare(case, library, options.pairs))


if __name__ == "__main__":
    main()
