#!/usr/bin/env python3
"""RMSNorm (+ residual, + SiLU), LayerNorm and SwiGLU: Tegula, Triton on the same kernels, torch.compile and torch.

    bench/fused.py [--tegula build/release/tegula] [--rows 8192] [--cols 4096] [--dtype f16] [--pairs 21] [--out FILE]

The kernels are those of kernels/. Tegula and Triton both try every configuration and take their best; for Triton also a
plain form of each kernel as its tutorials write it. All are checked against torch in double precision and timed in
interleaved rounds (harness.py), the L2 cache overwritten before each launch, or in graphs if shorter than 30 us. Only
Tegula's launches may overlap the kernel ahead.
"""

import argparse
import json
import math
import pathlib
import statistics
import sys
from concurrent.futures import ThreadPoolExecutor

import torch
import torch.nn.functional as F
import triton
import triton.language as tl

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
import harness
import kernels.norm
import kernels.swiglu

DTYPES = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32}
EPS = 1e-5


# ---- Plain forms.


@triton.jit
def plain_norm(o, x, r, g, b, n, eps, BLOCK: tl.constexpr, RESIDUAL: tl.constexpr, SILU: tl.constexpr, LAYER: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    m = c < n
    v = tl.load(x + row * n + c, mask=m, other=0.0).to(tl.float32)
    if RESIDUAL:
        v += tl.load(r + row * n + c, mask=m, other=0.0).to(tl.float32)
    if LAYER:
        v = tl.where(m, v - tl.sum(v, 0) / n, 0.0)
    y = v * (1.0 / tl.sqrt(tl.sum(v * v, 0) / n + eps)) * tl.load(g + c, mask=m, other=0.0).to(tl.float32)
    if LAYER:
        y += tl.load(b + c, mask=m, other=0.0).to(tl.float32)
    if SILU:
        y = y * tl.sigmoid(y)
    tl.store(o + row * n + c, y.to(o.dtype.element_ty), mask=m)


class Work:
    """One function on one set of tensors: x, residual (or up), out; weight and bias are shared."""

    def __init__(self, name, traffic, options):
        self.name, self.rows, self.cols = name, options.rows, options.cols
        self.dtype_name, dtype = options.dtype, DTYPES[options.dtype]
        element = torch.empty(0, dtype=dtype).element_size()
        self.bytes = traffic * self.rows * self.cols * element
        l2 = torch.cuda.get_device_properties(0).L2_cache_size
        us = self.bytes / 4e6
        self.method = ("graph", math.ceil(1000 / us)) if us < 30 else ("flush", 5)
        # One set where the cache is overwritten: torch.compile writes to one tensor as well.
        count = 1 + math.ceil(2 * l2 / self.bytes) if self.method[0] == "graph" else 1
        make = lambda: torch.randn(self.rows, self.cols, device="cuda", dtype=dtype)
        self.sets = [(make(), make(), torch.empty(self.rows, self.cols, device="cuda", dtype=dtype)) for _ in range(count)]
        self.weight, self.bias = (torch.randn(self.cols, device="cuda", dtype=dtype) for _ in range(2))
        self.residual, self.silu, self.layer = "residual" in name, "silu" in name, name.startswith("layer")
        self.flush_bytes = max(2 * l2, 256 << 20)

    def torch(self, x, r, weight, bias):
        if self.name == "swiglu":
            return F.silu(x) * r
        v = x + r if self.residual else x
        if self.layer:
            y = F.layer_norm(v, (self.cols,), weight, bias, EPS)
        else:
            f = v.float() if v.dtype != torch.float64 else v
            y = (f * torch.rsqrt(f.pow(2).mean(-1, keepdim=True) + EPS)).to(v.dtype) * weight
        return F.silu(y) if self.silu else y

    def exact(self, index):
        x, r, _ = self.sets[index]
        return self.torch(x.double(), r.double(), self.weight.double(), self.bias.double())

    # ---- Kernels of kernels/: file, function, and per configuration (warps, more) the arguments.

    def configs(self):
        """(function, warps, constexprs, maxnreg)"""
        if self.name == "swiglu":
            return [("swiglu", w, {"BLOCK": 32 * w * n}, 0) for w in (1, 2, 4, 8, 16) for n in (8, 16, 32)]
        block = triton.next_power_of_2(self.cols)
        flags = {"BLOCK": block, "RESIDUAL": self.residual, "SILU": self.silu}
        name = "layer_norm" if self.layer else "rms_norm"
        return [(name, w, flags, r) for w in (1, 2, 4, 8, 16, 32) for r in (0, 32, 40, 48, 64) if 2 <= block / (32 * w) <= 128
                and (not r or block / (32 * w) <= 0.75 * r)]

    def module(self):
        return kernels.swiglu if self.name == "swiglu" else kernels.norm

    def arguments(self, index):
        """Names and values in the signature's order."""
        x, r, out = self.sets[index]
        if self.name == "swiglu":
            return {"out_ptr": out, "gate_ptr": x, "up_ptr": r, "count": x.numel()}
        pointers = {"out_ptr": out, "x_ptr": x, "residual_ptr": r, "weight_ptr": self.weight}
        pointers |= {"bias_ptr": self.bias} if self.layer else {}
        return pointers | dict.fromkeys(("out_stride", "x_stride", "residual_stride", "cols"), self.cols) | {"eps": EPS}

    def grid(self, constexprs):
        return -(-self.rows * self.cols // constexprs["BLOCK"]) if self.name == "swiglu" else self.rows

    # ---- Launching functions, one a set: {label: works}.

    def tegula(self, driver, command, options=()):
        types = {k: f"*{self.dtype_name}" if isinstance(v, torch.Tensor) else "f32" if isinstance(v, float) else "i32:16"
                 for k, v in self.arguments(0).items()}

        def build(config):
            name, warps, constexprs, limit = config
            try:
                code = harness.compile_kernel(command, self.module().__file__, name, types, constexprs, warps,
                                              "sm_90a", ["--maxnreg", str(limit), *options])
                return config, harness.LoadedKernel(driver, code)
            except Exception as error:
                return config, error

        with ThreadPoolExecutor(16) as pool:
            for (name, warps, constexprs, limit), kernel in pool.map(build, self.configs()):
                label = f"{name} w{warps} {constexprs['BLOCK']}" + (f" maxnreg {limit}" if limit else "")
                if isinstance(kernel, Exception):
                    print(f"  FAILED tegula {label}: {str(kernel)[:200]}")
                elif kernel.local_bytes == 0:  # no spills
                    yield f"{label} ({kernel.registers} regs)", [kernel.launcher(self.grid(constexprs), *self.arguments(i).values())
                                                                 for i in range(len(self.sets))]

    def triton(self):
        for name, warps, constexprs, limit in self.configs():
            function = getattr(self.module(), name).fn

            def work(i, function=function, warps=warps, constexprs=constexprs, limit=limit):
                args = list(self.arguments(i).values())
                return lambda: function[(self.grid(constexprs),)](*args, **constexprs, num_warps=warps, maxnreg=limit or None)
            yield f"{name} w{warps} {constexprs['BLOCK']} maxnreg {limit}", [work(i) for i in range(len(self.sets))]
        if self.name == "swiglu":
            return
        for warps in (1, 2, 4, 8, 16, 32):
            def plain(i, warps=warps):
                x, r, out = self.sets[i]
                return lambda: plain_norm[(self.rows,)](out, x, r, self.weight, self.bias, self.cols, EPS, num_warps=warps,
                                                        BLOCK=triton.next_power_of_2(self.cols), RESIDUAL=self.residual,
                                                        SILU=self.silu, LAYER=self.layer)
            yield f"plain w{warps}", [plain(i) for i in range(len(self.sets))]

    def check(self, work, index):
        out = self.sets[index][2]
        out.fill_(float("nan"))
        work()
        torch.cuda.synchronize()
        error = harness.relative_error(out, self.exact(index))
        if not error < 5e-3:
            raise RuntimeError(f"WRONG RESULT: relative error {error:.2g}")
        return error

    def tune(self, side, candidates):
        method, launches = self.method
        quick = harness.Interleaved(method, len(self.sets), self.flush_bytes, min(launches, 64))
        prepared, works = {}, {}
        for label, candidate in candidates:
            try:
                self.check(candidate[0], 0)
                prepared[label] = quick.prepare(candidate)
                works[label] = candidate
            except Exception as error:
                print(f"  FAILED {side} {label}: {str(error)[:200]}")
        figures = quick.rounds(prepared, 5)
        best = sorted(figures, key=lambda label: statistics.median(figures[label]))[:6]
        figures = quick.rounds({label: prepared[label] for label in best}, 15)
        best.sort(key=lambda label: statistics.median(figures[label]))
        print(f"  tuning {side}: " + ", ".join(f"{b} {statistics.median(figures[b]):.1f}" for b in best), flush=True)
        return best[0], works[best[0]]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tegula", default="build/release/tegula")
    parser.add_argument("--rows", type=int, default=8192)
    parser.add_argument("--cols", type=int, default=4096)
    parser.add_argument("--dtype", choices=list(DTYPES), default="f16")
    parser.add_argument("--pairs", type=int, default=21)
    parser.add_argument("--out", help="JSON file")
    options = parser.parse_args()
    driver = harness.Driver()
    report, table = [], []
    for name, traffic in (("rms_norm", 2), ("rms_norm residual", 3), ("rms_norm residual silu", 3), ("layer_norm", 2),
                          ("layer_norm residual", 3), ("swiglu", 3)):
        work = Work(name, traffic, options)
        print(f"{name} {options.rows}x{options.cols} {options.dtype}, {work.method[0]}", flush=True)
        compiled = torch.compile(work.torch)
        label, works = {}, {}
        label["tegula"], works["tegula"] = work.tune("tegula", work.tegula(driver, options.tegula))
        label["triton"], works["triton"] = work.tune("triton", work.triton())
        works["torch.compile"] = [lambda x=x, r=r: compiled(x, r, work.weight, work.bias) for x, r, _ in work.sets]
        works["torch"] = [lambda x=x, r=r: work.torch(x, r, work.weight, work.bias) for x, r, _ in work.sets]
        works["tegula again"] = works["tegula"]
        timer = harness.Interleaved(work.method[0], len(work.sets), work.flush_bytes, work.method[1])
        arms = {arm: timer.prepare(w) for arm, w in works.items()}
        timer.rounds(arms, 3)
        figures = timer.rounds(arms, options.pairs)
        error = max(work.check(w, i) for i, w in enumerate(works["tegula"]))
        best_other = min(("triton", "torch.compile"), key=lambda arm: statistics.median(figures[arm]))
        ratios = {arm: harness.ratio(figures[arm], figures["tegula"]) for arm in figures if arm != "tegula"}
        report.append({"name": name, "us": figures, "ratios": ratios, "label": label, "error": error, "bytes": work.bytes})
        us = {arm: statistics.median(f) for arm, f in figures.items()}
        table.append(f"{name:24s} {us['tegula']:8.2f} {work.bytes / us['tegula'] / 1e3:6.0f} {us['triton']:8.2f} "
                     f"{us['torch.compile']:8.2f} {us['torch']:8.2f} {ratios[best_other]['median']:7.3f} "
                     f"{ratios['tegula again']['median']:6.3f}  {label['tegula']} | {label['triton']}")
        if options.out:
            pathlib.Path(options.out).write_text(json.dumps(report))
    print(f"\n{'us':24s} {'tegula':>8s} {'GB/s':>6s} {'triton':>8s} {'compile':>8s} {'torch':>8s} {'ratio':>7s} {'A/A':>6s}  "
          "tegula's | triton's configuration; ratio: the better of Triton and torch.compile over Tegula")
    print("\n".join(table))


if __name__ == "__main__":
    main()
