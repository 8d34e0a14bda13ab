#!/usr/bin/env python3
"""Matrix products with and without GELU: Tegula, Triton, cuBLAS and torch.compile on the same tensors in one process.

    bench/gemm.py [--only TEXT...] [--pairs 21] [--budget SECONDS] [--out FOLDER]

Tegula runs kernels/gemm.py over the configurations of that file. Triton runs two kernels of peer_kernels.py, one with
pointers and a persistent one with tensor descriptors (also of a transposed copy of B), each over its own configurations,
GELU in the form that suits it best. torch is cuBLAS, and with GELU the product and then the activation; cublaslt is its
epilogue. B is K x N, all matrices are row-major. Elements of the result are about 1 (A of N(0, 1), B of N(0, 1 / K)).

Each side's configurations are checked against double precision and timed, and its best one goes into the comparison:
interleaved rounds in random order (harness.py) with the L2 cache overwritten before each launch, or graph replays over
rotating tensors for kernels under 30 us. In the same rounds run Tegula's best once more (A/A), with GELU the same
configuration without it (plain: what the activation costs), and at 4096^3 the same text compiled for sm_80, which has
mma.sync but no wgmma. The winners are checked again afterwards. Last come the cold start of a product with tiles of 128 x
256 x 64 in fresh processes, from text to loaded kernel, and its time in the driver's assembler.

The `irregular` cases are products that tiles of 128 x 256 do not suit: a partial last wave, small ones, deep and shallow K,
few rows.

Writes gemm.json as it goes, at the end gemm.txt and gemm.md.
"""

import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import time

import torch
import torch.nn.functional as F
import triton
from triton.tools.tensor_descriptor import TensorDescriptor

import harness
import peer_kernels
import report
import side_by_side
from side_by_side import DTYPES, ROOT, load_module, tegula, tune

SHAPES = [(4096, 4096, 4096), (8192, 8192, 8192), (8192, 14336, 4096)]
# BLOCK_M, BLOCK_N, BLOCK_K, warps, stages of Triton's kernels.
POINTER_TILES = [(128, 256, 64, 8, 3), (128, 256, 64, 8, 4), (256, 128, 64, 8, 3), (256, 128, 64, 8, 4), (128, 128, 64, 4, 4),
                 (128, 128, 64, 8, 3), (64, 256, 64, 4, 4), (64, 128, 64, 4, 4)]
DESCRIPTOR_TILES = [(128, 256, 64, 8, 3), (128, 256, 64, 8, 4), (128, 128, 64, 8, 4), (128, 128, 64, 4, 4), (256, 128, 64, 8, 3)]
ODD_TILES = [(128, 128, 32, 4, 4), (64, 128, 32, 4, 4), (64, 64, 64, 4, 4), (64, 64, 32, 4, 4), (64, 32, 32, 2, 4), (32, 64, 32, 2, 4),
             (128, 64, 32, 4, 4), (32, 32, 64, 2, 4), (128, 128, 64, 8, 3)]
IRREGULAR = [(6144, 6144, 6144), (4608, 5632, 4096), (5120, 5120, 5120), (3072, 3072, 3072),
             (768, 768, 768), (1024, 1024, 1024), (1280, 1280, 1280), (1536, 1536, 1536),
             (768, 768, 12288), (256, 256, 32768), (512, 512, 16384), (4096, 6144, 384), (8192, 4096, 256),
             (1, 4096, 4096), (1, 4096, 14336), (8, 14336, 4096), (16, 4096, 14336), (16, 6144, 4096), (64, 4096, 4096),
             (64, 14336, 4096), (96, 4096, 14336), (192, 14336, 4096), (256, 4096, 4096), (256, 4096, 14336)]
SOME_ROWS = [(64, 128, 64, 4, 4), (64, 64, 64, 4, 4), (64, 64, 128, 4, 3), (64, 256, 64, 4, 4), (128, 64, 64, 4, 4), (128, 128, 64, 4, 3),
             (128, 128, 64, 8, 4), (128, 256, 64, 8, 3), (64, 32, 128, 4, 4)]
FEW_ROWS = [(16, n, k, 4, s) for n in (16, 32, 64, 128) for k in (128, 256) for s in (3, 5)]


def descriptor_arguments(transposed, how, c, a, b, b_transposed, m, n, k):
    block_m, block_n, block_k = how["BLOCK_M"], how["BLOCK_N"], how["BLOCK_K"]
    right = (TensorDescriptor.from_tensor(b_transposed, [block_n, block_k]) if transposed else
             TensorDescriptor.from_tensor(b, [block_k, block_n]))
    return (TensorDescriptor.from_tensor(c, [block_m, block_n]), TensorDescriptor.from_tensor(a, [block_m, block_k]), right, m, n, k)


def peer_arguments(kernel, how, c, a, b, b_transposed, m, n, k):
    if kernel == "gemm_pointers":
        return c, a, b, m, n, k, a.stride(0), b.stride(0), c.stride(0)
    return descriptor_arguments(kernel.endswith("transposed"), how, c, a, b, b_transposed, m, n, k)


class Gemm(side_by_side.Case):
    """c = a b, or gelu(a b). `gap`: elements between the rows of each matrix."""

    tolerance = {"f16": 4e-4, "bf16": 3e-3}

    def __init__(self, name, dtype, m, n, k, gap=0):
        self.name, self.dtype_name, self.dtype, self.gelu = name, dtype, DTYPES[dtype], "GELU" in name
        self.m, self.n, self.k, self.gap = m, n, k, gap
        self.flops = 2 * m * n * k

    def __str__(self):
        return f"{self.name} {self.m}x{self.n}x{self.k} {self.dtype_name}" + (f" rows {self.gap} apart" if self.gap else "")

    def make(self):
        """Makes the tensors, for which a GPU is needed."""
        m, n, k = self.m, self.n, self.k

        def matrix(rows, cols, scale=1.0):
            x = torch.empty(rows, cols + self.gap, device="cuda", dtype=self.dtype)
            x.normal_(0, scale)
            return x[:, :cols]

        def make_set():
            b = matrix(k, n, k**-0.5)
            return [matrix(m, k), b, b.T.contiguous() if self.has_descriptors() else None], matrix(m, n)

        moved = 2 * (m * k + k * n + m * n)
        self.prepare(moved, max(moved / 4.2e6, self.flops / 650e6), make_set)
        self.bias = torch.zeros(n, device="cuda", dtype=self.dtype)
        # As kernels/gemm.cpp has it.
        divisible = k >= 128 if m * n <= 66 * 128 * 256 else m * n <= 16 * 132 * 128 * 256 and k >= 2048
        self.partials = torch.empty(max(self.sms, 132) * 128 * 256, device="cuda", dtype=torch.float32) if divisible else None
        self.counters = torch.zeros(1 << 14, device="cuda", dtype=torch.int32) if divisible else None
        self.known = {}
        return self

    def has_descriptors(self):
        return self.m > 64 and not self.gap and self.n % 8 == 0 and self.k % 8 == 0

    def exact(self, index):
        if index not in self.known:
            a, b, _ = self.sets[index][0]
            y = a.double() @ b.double()
            self.known = {index: F.gelu(y, approximate="tanh") if self.gelu else y}  # one at a time: they are large
        return self.known[index]

    # ---- Tegula.

    def arguments(self, i):
        (a, b, _), c = self.sets[i]
        return (c, a, b, None, self.m, self.n, self.k, a.stride(0), 1, b.stride(0), b.stride(1), c.stride(0), 1,
                load_module("gemm_tiles").row_class(self.m), self.partials, self.counters)

    def tegula(self, failures):
        module, found = load_module("gemm"), {}
        (a, b, _), _ = self.sets[0]
        given = {"M": self.m, "N": self.n, "K": self.k, "partials_ptr": self.partials, "stride_am": a.stride(0), "stride_ak": 1,
                 "stride_bk": b.stride(0), "stride_bn": 1}
        for c in module.fitting(module.configs(), given):
            how = dict(c.kwargs)
            label = "x".join(str(how["BLOCK_" + d]) for d in "MNK") + f" group {how['GROUP_M']} w{c.num_warps} s{c.num_stages}"
            label += " transposed" * how["SWAP"] + f" {c.num_ctas} blocks" * (c.num_ctas > 1)
            how["num_ctas"] = c.num_ctas
            label += f" divided by {self.tiles(how) // self.tiles(how, False)}" if how["PARTS"] else " stream" if how["STREAM"] else " persistent" * bool(how["PROGRAMS"])
            label += " shared" * (how["SHARES"] > 1) + " in turns" * how["TURNS"]
            how |= {f"EVEN_{d}": extent % how["BLOCK_" + d] == 0 for d, extent in zip("MNK", (self.m, self.n, self.k))}
            found[label] = how | {"EPILOGUE": "gelu_tanh_fast" if self.gelu else "none", "num_warps": c.num_warps, "num_stages": c.num_stages}
        kernel = tegula.load(str(ROOT / "kernels" / "gemm.py")).gemm
        return side_by_side.tegula_candidates(self, kernel, found, lambda how, ready: self.tiles(how), failures)

    def tiles(self, how, programs=True):
        """Programs of a launch; tiles of C."""
        tiles = triton.cdiv(self.m, how["BLOCK_M"]) * triton.cdiv(self.n, how["BLOCK_N"])
        if not programs or not how.get("PROGRAMS"):
            return tiles
        blocks = how.get("num_ctas", 1)
        at_once = how["PROGRAMS"] * (self.sms // blocks if blocks < 4 else self.sms // blocks * 15 // 16)  # as runtime/device.h has it
        if how["PARTS"]:
            return tiles * max(1, min(at_once // tiles, triton.cdiv(self.k, how["BLOCK_K"]) // 2))
        return min(tiles, at_once)

    def plain(self, best):
        how, grid = best
        launch = tegula.load(str(ROOT / "kernels" / "gemm.py")).gemm[(grid,)]
        return self.over_sets(lambda i: launch(*self.arguments(i), **how | {"EPILOGUE": "none"}))

    def for_sm_80(self, best):
        how, grid = best
        image = tegula.load(str(ROOT / "kernels" / "gemm.py")).gemm.compile(*self.arguments(0), target="sm_80", **how)
        ready = harness.LoadedKernel(harness.Driver(), harness.Code("gemm", image.ptx.encode(), image.num_warps, image.shared_bytes))
        # What is None or 1 is compiled in.
        given = lambda i: [x for x in self.arguments(i) if isinstance(x, torch.Tensor) or x is not None and x != 1]
        return [ready.launcher(grid, *given(i)) for i in range(len(self.sets))]

    # ---- Triton.

    def recipes(self, side):
        """(label, kernel, constexprs and options) of Triton's candidates."""
        odd = self.gap or self.n % 8 or self.k % 8
        tiles = FEW_ROWS if self.m <= 16 else ODD_TILES if odd else SOME_ROWS + ODD_TILES if self.m < 2048 else POINTER_TILES
        for form in ("sigmoid", "approx") if self.gelu else ("none",):
            if side == "triton":
                for m, n, k, warps, stages in tiles:
                    how = {"FORM": form, "BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k, "GROUP_M": 8, "EVEN_K": self.k % k == 0}
                    yield f"{m}x{n}x{k} w{warps} s{stages} {form}", "gemm_pointers", how | {"num_warps": warps, "num_stages": stages}
            elif self.has_descriptors():
                for m, n, k, warps, stages in DESCRIPTOR_TILES:
                    for specialise in (False, True):
                        for kernel in ("gemm_descriptors", "gemm_descriptors_transposed") if (m, n) == (128, 256) else ("gemm_descriptors",):
                            how = {"FORM": form, "BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k, "GROUP_M": 8, "SPECIALISE": specialise}
                            label = f"{m}x{n}x{k} w{warps} s{stages} {form}" + " ws" * specialise + " B^T" * kernel.endswith("transposed")
                            yield label, kernel, how | {"num_warps": warps, "num_stages": stages}

    def candidates(self, side, failures):
        for label, kernel, how in self.recipes(side):
            try:
                grid = self.tiles(how)
                if side == "tma":
                    how, grid = how | {"SMS": self.sms}, min(self.sms, grid)
                function = getattr(peer_kernels, kernel)
                arguments = [peer_arguments(kernel, how, c, *inputs, self.m, self.n, self.k) for inputs, c in self.sets]
                ready = function.warmup(*arguments[0], grid=(1,), **how)
                ready._init_handles()
                if ready.n_spills > 0:
                    failures[f"{side} {label}"] = f"{ready.n_spills} registers spilled"
                    continue
                launch = function[(grid,)]
                yield label, [lambda launch=launch, x=x, how=how: launch(*x, **how) for x in arguments], None
            except Exception as error:
                failures[f"{side} {label}"] = str(error)

    # ---- Libraries.

    def libraries(self):
        """{name: works}; their results go to `out`, except those of fused calls, which make their own."""
        def product(i):
            (a, b, _), c = self.sets[i]
            return torch.matmul(a, b, out=c)

        if not self.gelu:
            return {"torch": self.over_sets(product)}
        gelu = lambda y: F.gelu(y, approximate="tanh")
        both = lambda i: gelu(product(i))
        epilogue = lambda i: torch._addmm_activation(self.bias, *self.sets[i][0][:2], use_gelu=True)
        found = {"torch": self.over_sets(both), "cublaslt": self.over_sets(epilogue)}
        if self.dtype_name == "f16" and self.n == 4096:
            compiled = torch.compile(lambda a, b: gelu(a @ b))
            found["torch.compile"] = self.over_sets(lambda i: compiled(*self.sets[i][0][:2]))
        for name, works in found.items():
            error = harness.relative_error(works[0](), self.exact(0))
            if not error < 2 * self.tolerance[self.dtype_name]:  # two roundings
                raise RuntimeError(f"WRONG RESULT of {name}: relative error {error:.2g}")
        return found


def all_cases():
    for m, n, k in SHAPES:
        for dtype in ("f16", "bf16"):
            for name in ("gemm", "gemm + GELU"):
                yield Gemm(name, dtype, m, n, k)
    yield Gemm("gemm", "f16", 16, 4096, 4096)
    yield Gemm("gemm + GELU", "f16", 16, 4096, 4096)
    yield Gemm("gemm", "f16", 1000, 777, 333)
    yield Gemm("gemm", "f16", 2048, 2040, 2024, 3)
    for m, n, k in IRREGULAR:
        yield Gemm("irregular", "f16", m, n, k)


def compare(case, pairs):
    failures, best = {}, {}
    arms = case.libraries()
    for side in ("tegula", "triton", "tma"):
        if side == "tma" and not case.has_descriptors():
            continue
        candidates = case.tegula(failures) if side == "tegula" else case.candidates(side, failures)
        best[side] = tune(case, side, candidates, failures)
        arms[side] = best[side][1]
    arms["tegula again"] = arms["tegula"]
    if case.gelu:
        arms["plain"] = case.plain(best["tegula"][2])
    if str(case) == "gemm 4096x4096x4096 f16":
        try:
            arms["mma.sync"] = case.for_sm_80(best["tegula"][2])
            case.check(arms["mma.sync"][0])
        except Exception as error:
            arms.pop("mma.sync", None)
            failures["mma.sync"] = str(error)
    figures = side_by_side.measure(case, arms, pairs)
    error = max(case.check(work, i) for i, work in enumerate(arms["tegula"]))
    for side in ("triton", "tma"):
        for i, work in enumerate(arms.get(side, [])):
            case.check(work, i)
    others = {name: harness.ratio(figures[name], figures["tegula"]) for name in figures if name in ("torch", "cublaslt", "torch.compile", "triton", "tma")}
    ratios = others | {"A/A": harness.ratio(figures["tegula again"], figures["tegula"]),
                       "best other": min(others.values(), key=lambda r: r["median"])}
    if case.gelu:
        ratios["activation"] = harness.ratio(figures["tegula"], figures["plain"])
    return side_by_side.report_row(case, figures, ratios, best, failures, flops=case.flops, bytes=case.bytes, method=case.method[0],
                                   error=error, rounds=figures)


# ---- Triton's kernels are compiled by processes of their own before this one opens the GPU: in one process they would
# wait for each other.


def compile_peer(recipe):
    kernel, dtype, gap, (m, n, k), how = recipe
    matrix = lambda rows, cols: torch.empty(rows, cols + gap, dtype=DTYPES[dtype])[:, :cols]
    try:
        if kernel != "gemm_pointers":
            how = how | {"SMS": torch.cuda.get_device_properties(0).multi_processor_count}
        arguments = peer_arguments(kernel, how, matrix(m, n), matrix(m, k), matrix(k, n), matrix(n, k), m, n, k)
        getattr(peer_kernels, kernel).warmup(*arguments, grid=(1,), **how)
    except Exception as error:  # shows again where the kernel is wanted
        return f"{kernel} {how}: {error}"


def compile_peers(cases):
    recipes = {}
    for case in cases:
        for side in ("triton", "tma"):
            for _, kernel, how in case.recipes(side):
                key = (kernel, case.dtype_name, case.gap, case.m % 16, case.n % 16, case.k % 16, str(how))
                recipes.setdefault(key, (kernel, case.dtype_name, case.gap, (case.m, case.n, case.k), how))
    start = time.perf_counter()
    with multiprocessing.get_context("fork").Pool(min(14, os.cpu_count())) as pool:
        failed = [f for f in pool.imap_unordered(compile_peer, recipes.values()) if f]
    print(f"{len(recipes)} kernels of Triton compiled in {time.perf_counter() - start:.0f} s, {len(failed)} failed", flush=True)


# ---- Cold start: a fresh process, nothing in any cache, the device open and the data there.

COLD = """
import ctypes, sys, time
sys.path.insert(0, sys.argv[1] + "/bindings/python")
import torch, tegula
a, b, c = (torch.zeros(4096, 4096, device="cuda", dtype=torch.float16) for _ in range(3))
torch.cuda.synchronize()
start = time.perf_counter()
kernel = tegula.load(sys.argv[1] + "/kernels/gemm.py").gemm
n = 4096
image = kernel.facts(c, a, b, None, n, n, n, n, 1, n, 1, n, 1, n, None, None, EPILOGUE="none", BLOCK_M=128, BLOCK_N=256, BLOCK_K=64,
                     GROUP_M=8, PROGRAMS=0, PARTS=0, SWAP=False, EVEN_M=True, EVEN_N=True, EVEN_K=True, num_warps=8, num_stages=3)
whole = time.perf_counter() - start
driver, module, ptx = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), image.ptx.encode() + b"\\0"
start = time.perf_counter()
assert driver.cuModuleLoadDataEx(ctypes.byref(module), ctypes.c_char_p(ptx), 0, None, None) == 0
print(f"{whole * 1e3:.1f} {(time.perf_counter() - start) * 1e3:.1f}")
"""


def cold_start(runs=3):
    """Medians in ms: from text to loaded kernel, and the driver's assembler alone on the same PTX."""
    whole, assembler = [], []
    for _ in range(runs):
        with tempfile.TemporaryDirectory() as folder:
            env = dict(os.environ, TEGULA_CACHE_DIR=folder, CUDA_CACHE_DISABLE="1")
            run = subprocess.run([sys.executable, "-c", COLD, str(ROOT)], env=env, capture_output=True, text=True, timeout=60)
        if run.returncode:
            raise RuntimeError(run.stderr.strip()[-500:])
        first, second = map(float, run.stdout.split()[-2:])
        whole.append(first)
        assembler.append(second)
    return statistics.median(whole), statistics.median(assembler)


def main():
    start, options = time.perf_counter(), side_by_side.options(__doc__)
    cases = [case for case in all_cases() if side_by_side.wanted(str(case), options)]
    compile_peers(cases)
    result = side_by_side.run("gemm", [(str(case), case.make) for case in cases], compare_and_free, options, start)
    text = report.gemm_table(result["rows"])
    for what, line in report.gemm_summary(result["rows"]).items():
        text += f"\n{what}: {line}"
    if not options.only:
        try:
            whole, assembler = result["cold_ms"] = cold_start()
            text += f"\ntext to loaded kernel, 128x256x64, cold: {whole:.0f} ms, of which the driver's assembler takes {assembler:.0f} ms"
        except Exception as error:
            text += f"\ncold start: {error}"
            result["missing"].append("cold start")
    side_by_side.write("gemm", text + "\n" + result["end"], report.gemm_markdown(result), options)
    return 1 if result["missing"] else 0


def compare_and_free(case, pairs):
    try:
        return compare(case, pairs)
    finally:
        case.sets, case.known = [], {}


if __name__ == "__main__":
    sys.exit(main())
