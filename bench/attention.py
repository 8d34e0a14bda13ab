#!/usr/bin/env python3
"""Attention, forward and backward: Tegula and Triton on the same text, and torch's own (cuDNN, flash), in one process.

    bench/attention.py [--only TEXT...] [--pairs 21] [--budget SECONDS] [--out FOLDER]

Both sides run attention_kernels.py over the same configurations and take their best ones into interleaved rounds
(harness.py), with Tegula's once more (A/A). Results are checked against fp32 products of the same inputs. Writes
attention.json as it goes, at the end attention.txt.
"""

import itertools
import statistics
import sys
import time

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

import attention_kernels
import harness
import side_by_side
from side_by_side import HERE, tegula

HEADS = 64  # 16 of each of 4 sequences
BACKWARD_TOKENS = 16384  # of all sequences together
DTYPES = {"f16": torch.float16, "bf16": torch.bfloat16, "fp8": torch.float8_e4m3fn}


class Attention(side_by_side.Case):
    """One kernel over `heads` heads of S rows with D elements. fp8: V has the keys of a dimension side by side, and the
    result is fp16."""

    tolerance = {"f16": 4e-3, "bf16": 2e-2, "fp8": 4e-2}

    def __init__(self, kernel, d, causal, s, dtype="f16"):
        self.kernel, self.d, self.causal, self.s = kernel, d, causal, s
        self.dtype_name, self.dtype = dtype, DTYPES[dtype]
        self.heads = HEADS if kernel == "forward" else max(1, BACKWARD_TOKENS // s) * (2048 // d)
        products = {"forward": 2, "backward_dkdv": 4, "backward_dq": 3}[kernel]
        self.flops = 2 * products * self.heads * s * s * d // (2 if causal else 1)
        moved = 2 * 4 * self.heads * s * d

        def make_set():
            def tensor():
                return torch.randn(self.heads, s, d, device="cuda").to(self.dtype)

            if kernel == "forward":
                return [tensor() for _ in range(3)], torch.empty(self.heads, s, d, device="cuda", dtype=torch.float16 if dtype == "fp8" else self.dtype)
            return [tensor() for _ in range(4)], torch.empty(2 if "dkdv" in kernel else 1, self.heads, s, d, device="cuda", dtype=self.dtype)

        self.prepare(moved, max(moved / 4e6, self.flops / 500e6), make_set)
        self.scale = d**-0.5
        if kernel == "forward":
            self.by_keys = [inputs[2].transpose(1, 2).contiguous() if dtype == "fp8" else inputs[2] for inputs, _ in self.sets]
            self.lse = torch.empty(self.heads, s, device="cuda")
        else:
            self.rows = [self.statistics(*inputs) for inputs, _ in self.sets]
        self.known = {}

    def __str__(self):
        return f"{self.kernel} hd{self.d} {'causal' if self.causal else 'full'} S {self.s} x {self.heads} heads {self.dtype_name}"

    def chunks(self):
        return range(0, self.heads, max(1, (1 << 28) // self.s**2))

    def probabilities(self, q, k):
        scores = (q.float() @ k.float().transpose(1, 2)) * self.scale
        if self.causal:
            scores.masked_fill_(torch.ones(self.s, self.s, device="cuda", dtype=torch.bool).triu(1), -float("inf"))
        return scores

    def statistics(self, q, k, v, do):
        """lse (base 2) and delta of each row."""
        lse, delta = (torch.empty(self.heads, self.s, device="cuda") for _ in range(2))
        step = self.chunks().step
        for h in self.chunks():
            scores = self.probabilities(q[h:h + step], k[h:h + step])
            lse[h:h + step] = torch.logsumexp(scores, 2) * 1.4426950408889634
            out = torch.softmax(scores, 2) @ v[h:h + step].float()
            delta[h:h + step] = (out * do[h:h + step].float()).sum(2)
        return lse, delta

    def exact(self, index):
        if index in self.known:
            return self.known[index]
        q, k, v, *do = self.sets[index][0]
        if do:
            do, delta = do[0], self.rows[index][1]
        out, step = torch.empty(self.sets[index][1].shape, device="cuda", dtype=torch.float64), self.chunks().step
        for h in self.chunks():
            p = torch.softmax(self.probabilities(q[h:h + step], k[h:h + step]), 2)
            if self.kernel == "forward":
                out[h:h + step] = p @ v[h:h + step].float()
                continue
            ds = p * (do[h:h + step].float() @ v[h:h + step].float().transpose(1, 2) - delta[h:h + step, :, None]) * self.scale
            if self.kernel == "backward_dq":
                out[0, h:h + step] = ds @ k[h:h + step].float()
            else:
                out[0, h:h + step] = ds.transpose(1, 2) @ q[h:h + step].float()
                out[1, h:h + step] = p.transpose(1, 2) @ do[h:h + step].float()
        self.known = {index: out}
        return out

    def configs(self):
        """Triton's tuned choices are among these: a row block a program, four warps for 64 rows."""
        tiles = {"forward": [(128, 128, 8), (128, 64, 8), (128, 64, 4), (64, 128, 4), (64, 64, 4)],
                 "backward_dkdv": [(64, 128, 8), (64, 64, 4), (32, 128, 8), (32, 128, 4), (128, 128, 8)],
                 "backward_dq": [(128, 64, 8), (64, 64, 4), (128, 32, 8), (128, 32, 4), (128, 128, 8)]}[self.kernel]
        for (m, n, warps), stages in itertools.product(tiles, (2, 3, 4)):
            if self.causal and self.kernel == "forward" and m % n:
                continue  # the text's unmasked part ends at a multiple of BLOCK_M
            yield {"BLOCK_M": m, "BLOCK_N": n, "num_warps": warps, "num_stages": stages}

    def arguments(self, i):
        inputs, out = self.sets[i]
        if self.kernel == "forward":
            return out, self.lse, *inputs[:2], self.by_keys[i], self.scale, self.s
        q, k, v, do = inputs
        lse, delta = self.rows[i]
        outs = (out[0], out[1]) if "dkdv" in self.kernel else (out[0],)
        return (*outs, q, k, v, do, lse, delta, self.scale, self.s)

    def candidates(self, side, failures):
        # Triton's text would have to say it; here it is an option as others are.
        specialize = (1, 2) if side == "tegula" else (None,)
        for how, value in itertools.product(self.configs(), specialize):
            label = f"{how['BLOCK_M']}x{how['BLOCK_N']} w{how['num_warps']} s{how['num_stages']}"
            if value:
                how, label = dict(how, warp_specialize=value), label + (" copy warps" if value == 2 else "")
            how = dict(how, D=self.d, CAUSAL=self.causal, **({"V_BY_KEYS": True} if self.dtype_name == "fp8" else {}))
            if side == "tegula":
                function = tegula.load(str(HERE / "attention_kernels.py"))[self.kernel]
                facts = None
                try:
                    facts = function.facts(*self.arguments(0), **how)
                except tegula.Error as error:
                    failures[f"tegula {label}"] = str(error)
                    continue
                label += f" ({facts.registers} regs, {facts.spill_bytes} spilled)"
            else:
                function = getattr(attention_kernels, self.kernel)
            block = how["BLOCK_N"] if "dkdv" in self.kernel else how["BLOCK_M"]
            launch = function[(self.s // block, self.heads)]
            yield label, self.over_sets(lambda i, launch=launch, how=how: launch(*self.arguments(i), **how)), None


def cases():
    lengths = (2048, 4096, 8192, 16384)
    out = [("forward", d, causal, s, dtype) for dtype in ("f16", "bf16") for d in (64, 128, 256) for causal in (False, True) for s in lengths]
    out += [("forward", 128, causal, s, "fp8") for causal in (False, True) for s in lengths]
    return out + [(kernel, d, causal, 4096, "f16") for kernel in ("backward_dkdv", "backward_dq") for d in (64, 128) for causal in (False, True)]


def attend(backend, case, i):
    with sdpa_kernel(backend):
        torch.nn.functional.scaled_dot_product_attention(*(x[None] for x in case.sets[i][0][:3]), is_causal=case.causal)


def compare(case, pairs):
    failures = {}
    best, arms = side_by_side.best_of_sides(case, lambda side: case.candidates(side, failures), failures)
    if case.kernel == "forward" and case.dtype_name != "fp8":  # torch has none of fp8
        for name, backend in (("cudnn", SDPBackend.CUDNN_ATTENTION), ("flash", SDPBackend.FLASH_ATTENTION)):
            arms[name] = case.over_sets(lambda i, backend=backend: attend(backend, case, i))
    figures = side_by_side.measure(case, arms, pairs)
    error = max(case.check(work, i) for i, work in enumerate(arms["tegula"]))
    ratios = {"A/A": harness.ratio(figures["tegula again"], figures["tegula"])}
    ratios |= {name: harness.ratio(figures[name], figures["tegula"]) for name in ("triton", "cudnn", "flash") if name in figures}
    tflops = case.flops / statistics.median(figures["tegula"]) / 1e6
    line = f"{str(case):48} {tflops:6.0f} TFLOP/s " + " ".join(
        f"{name} {r['median']:.3f}" for name, r in ratios.items()) + f" error {error:.1e}; {best['tegula'][0]} | {best['triton'][0]}"
    print(line, flush=True)
    return side_by_side.report_row(case, figures, ratios, best, failures, flops=case.flops, error=error, line=line)


def main():
    start, options = time.perf_counter(), side_by_side.options(__doc__)
    labelled = [(f"{k} hd{d} {'causal' if c else 'full'} S {s} {t}", lambda a=(k, d, c, s, t): Attention(*a)) for k, d, c, s, t in cases()]
    result = side_by_side.run("attention", labelled, compare, options, start)
    text = "\n".join(row["line"] for row in result["rows"]) + "\n" + result["end"]
    side_by_side.write("attention", text, text, options)
    return 1 if result["missing"] else 0


if __name__ == "__main__":
    sys.exit(main())
