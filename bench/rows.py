#!/usr/bin/env python3
"""Memory-bound kernels: Tegula, Triton, torch.compile and torch on the same tensors in one process.

    bench/rows.py [--only TEXT...] [--pairs 21] [--budget SECONDS] [--out FOLDER]

Tegula runs the kernels of kernels/ over all configurations of their files; Triton runs the same texts over the same
configurations, with rows padded to powers of two, and the kernels of its tutorials (peer_kernels.py) over warps and
stages. Each side's configurations are checked against double precision and timed, and its best one goes into the
comparison: interleaved rounds (harness.py) with the L2 cache overwritten before each launch, or graph replays over
rotating tensors for kernels under 30 us. In the same rounds run Tegula's best once more (A/A) and without overlap of
launches (alone), torch, torch.compile, a copy where one matrix is read, and for two chains the separate kernels of
tutorial 03. Both sides' winners are checked again afterwards.

Writes rows.json as it goes, at the end rows.txt, rows.md, softmax_f32.svg and softmax_bf16.svg.
"""

import multiprocessing
import os
import pathlib
import statistics
import sys
import time

import torch
import torch.nn.functional as F
import triton

import harness
import peer_kernels
import report
import side_by_side
from side_by_side import DTYPES, ROOT, jit_function, load_module, tegula

EPS = 1e-5
SOFTMAX_COLS = [256, 781, 1024, 2048, 4096, 8192, 12672, 16384, 32768]
WIDE_COLS = [49152, 65536, 98304, 131072, 196608, 262144]
ODD_COLS = [1536, 2560, 3584, 5120, 6144, 7168, 10240, 12288, 14336]  # 3, 5 and 7 times powers of two
WARPS = (1, 2, 4, 8, 16, 32)


class Case(side_by_side.Case):
    """One function on matrices of one shape and type."""

    inputs = 1  # matrices read
    file, function = "softmax", "softmax"
    compiled = True  # compare with torch.compile
    tutorial = None  # the separate kernels: (launches of a set, bytes that they move)
    sms = 132  # until the tensors are there

    def __init__(self, name, dtype, rows, cols):
        self.name, self.dtype_name, self.rows, self.cols = name, dtype, rows, cols
        self.dtype = DTYPES[dtype]
        self.element = torch.empty(0, dtype=self.dtype).element_size()
        self.block = triton.next_power_of_2(cols)

    def make(self, device="cuda"):
        """With tensors; on the CPU, for compiling alone, of one row."""
        moved = (self.inputs + 1) * self.rows * self.cols * self.element
        rows = self.rows if device == "cuda" else 1
        matrix = lambda: torch.randn(rows, self.cols, device=device, dtype=self.dtype)
        make_set = lambda: ([matrix() for _ in range(self.inputs)], torch.empty_like(matrix()))
        if device == "cuda":
            self.prepare(moved, moved / 4.2e6, make_set)
        else:
            self.sets = [make_set()]
        self.weight, self.bias = (torch.randn(self.cols, device=device, dtype=self.dtype) for _ in range(2))
        return self

    def __str__(self):
        return f"{self.name} {self.rows}x{self.cols} {self.dtype_name}"

    @property
    def rows_class(self):
        """Few rows, or many: as kernels/launch_rules.cpp has it."""
        return 0 if self.rows <= self.sms else 1 if self.rows <= 16 * self.sms else 2

    # What subclasses say: torch(inputs, weight, bias), arguments(i) of the library's kernel, fixed constexprs, peers().
    fixed = {}

    def grid(self, how, per_sm):
        tiles = -(-self.rows // how["ROWS"])
        if "COLS" in how:
            return tiles * -(-self.cols // how["COLS"])
        blocks = how.get("num_ctas", 1)
        at_once = self.sms * per_sm // blocks
        if blocks >= 4:
            at_once = max(1, self.sms // blocks * 15 // 16) * per_sm  # as kernels/launch_rules.cpp has it
        return min(tiles, at_once) if how["STAGES"] > 0 and how["PIECE"] == 0 else tiles

    def configs(self, **given):
        """Those that the library's file leaves for this shape, with what its heuristics say but for `given`."""
        return side_by_side.configurations(getattr(load_module(self.file), self.function), self.arguments(0), self.fixed, **given)

    def exact(self, index):
        inputs, _ = self.sets[index]
        return self.torch([x.double() for x in inputs], self.weight.double(), self.bias.double())

    # ---- Launching functions, one a set.

    def tegula(self, failures):
        kernel = tegula.load(str(ROOT / "kernels" / f"{self.file}.py"))[self.function]
        return side_by_side.tegula_candidates(self, kernel, self.configs(),
                                              lambda how, ready: self.grid(how, ready.programs_per_sm()), failures)

    def alone(self, best):
        how, grid = best
        launch = tegula.load(str(ROOT / "kernels" / f"{self.file}.py"))[self.function][(grid,)]
        return [lambda i=i: launch(*self.arguments(i), **how, dependent_launch=False) for i in range(len(self.sets))]

    def recipes(self):
        """(label, function, grid, arguments, constexprs and options) of Triton's candidates; grid(registers, shared memory)."""
        function = jit_function(getattr(load_module(self.file), self.function))

        def grid(how):
            def programs(n_regs, shared):
                warps, registers = how["num_warps"], -(-n_regs * 32 // 256) * 256
                return self.grid(how, max(1, min(4 * (65536 // 4 // registers) // warps, 64 // warps, 233472 // (shared + 1024))))

            return programs

        padded = {} if self.file == "elementwise" else {"BLOCK": self.block}
        for label, how in self.configs(**padded).items():
            if how["num_ctas"] > 1:
                continue  # its reductions stay inside a block
            yield label, function, grid(how), self.arguments, how
        for label, function, programs, arguments, how in self.peers():
            yield "tutorial " + label, function, lambda n_regs, shared, programs=programs: programs, arguments, how

    def triton(self, failures):
        for label, function, grid, arguments, how in self.recipes():
            try:
                ready = function.warmup(*arguments(0), grid=(1,), **how)
                ready._init_handles()
                launch = function[(grid(ready.n_regs, ready.metadata.shared),)]
                yield label, [lambda i=i, launch=launch, how=how, arguments=arguments: launch(*arguments(i), **how)
                              for i in range(len(self.sets))], None
            except Exception as error:
                failures["triton " + label] = str(error)

    def peers(self):
        return []


class Softmax(Case):
    compiled = False

    def torch(self, inputs, weight, bias):
        return torch.softmax(inputs[0], 1)

    @property
    def fixed(self):
        return {"KIND": "softmax", "CAUSAL": False}

    def arguments(self, i):
        (x,), out = self.sets[i]
        return out, x, None, None, self.cols, self.cols, 0, self.rows, self.cols, 1, 0, 1.0, self.rows_class

    def peers(self):
        for w in WARPS:
            if not 2 <= self.block / (32 * w) <= 128:
                continue
            for stages in (1, 2, 3, 4):
                for per_sm in sorted({max(1, 64 // w), max(1, 32 // w)}) if stages > 1 else (0,):
                    grid = min(self.rows, self.sms * per_sm) if per_sm else self.rows
                    yield (f"w{w} stages {stages} grid {grid}", peer_kernels.softmax, grid,
                           lambda i: (self.sets[i][1], self.sets[i][0][0], self.cols, self.cols, self.rows, self.cols),
                           {"BLOCK": self.block, "STAGES": stages, "num_warps": w})


class ScaledSoftmax(Softmax):
    compiled = True
    scale = 0.5

    def torch(self, inputs, weight, bias):
        return torch.softmax(inputs[0], 1) * self.scale + bias

    def arguments(self, i):
        (x,), out = self.sets[i]
        return out, x, None, self.bias, self.cols, self.cols, 0, self.rows, self.cols, 1, 0, self.scale, self.rows_class

    peers = Case.peers

    def separate(self):
        p = tegula.load(str(ROOT / "tutorials" / "03_your_own_fusion.py"))
        a, b, column = torch.empty_like(self.sets[0][1]), torch.empty_like(self.sets[0][1]), torch.empty(self.rows, device="cuda")
        (x,), out = self.sets[0]
        g, n = (self.rows,), self.cols

        def chain():
            p["row_max"][g](column, x, n)
            p["subtract"][g](a, x, column, n)
            p["exponential"][g](b, a, n)
            p["row_sum"][g](column, b, n)
            p["divide"][g](a, b, column, n)
            p["multiply"][g](b, a, self.scale, n)
            p["add_vector"][g](out, b, self.bias, n)

        return [chain], 12 / 2


class ExpNormalise(Softmax):
    compiled = True

    def torch(self, inputs, weight, bias):
        e = torch.exp(inputs[0]) + 1
        return e / e.sum(1, keepdim=True)

    @property
    def fixed(self):
        return {"KIND": "exp_normalize", "CAUSAL": False}

    peers = Case.peers

    def separate(self):
        p = tegula.load(str(ROOT / "tutorials" / "03_your_own_fusion.py"))
        a, b, column = torch.empty_like(self.sets[0][1]), torch.empty_like(self.sets[0][1]), torch.empty(self.rows, device="cuda")
        (x,), out = self.sets[0]
        g, n = (self.rows,), self.cols

        def chain():
            p["exponential"][g](a, x, n)
            p["add_one"][g](b, a, n)
            p["row_sum"][g](column, b, n)
            p["divide"][g](out, b, column, n)

        return [chain], 7 / 2


class Norm(Case):
    file, function = "norm", "norm"

    def __init__(self, name, dtype, rows, cols):
        self.residual, self.silu, self.center = "residual" in name, "SiLU" in name, name.startswith("LayerNorm")
        self.inputs = 2 if self.residual else 1
        super().__init__(name, dtype, rows, cols)

    @property
    def fixed(self):
        return {"CENTER": self.center, "ACTIVATION": "silu" if self.silu else "none", "L2": False}

    def torch(self, inputs, weight, bias):
        v = inputs[0] + inputs[1] if self.residual else inputs[0]
        if self.center:
            y = F.layer_norm(v, (self.cols,), weight, bias, EPS)
        else:
            f = v.float() if v.dtype != torch.float64 else v
            y = (f * torch.rsqrt(f.pow(2).mean(-1, keepdim=True) + EPS)).to(v.dtype) * weight
        return F.silu(y) if self.silu else y

    def arguments(self, i):
        inputs, out = self.sets[i]
        n = self.cols
        return (out, inputs[0], inputs[1] if self.residual else None, None, None, None, self.weight, self.bias if self.center else None,
                n, n, n if self.residual else 0, 0, self.rows, n, EPS, self.rows_class)

    def peers(self):
        for w in WARPS:
            if 2 <= self.block / (32 * w) <= 128:
                yield (f"w{w}", peer_kernels.norm, self.rows,
                       lambda i: (self.sets[i][1], self.sets[i][0][0], self.sets[i][0][-1], self.weight, self.bias, self.cols, EPS),
                       {"BLOCK": self.block, "RESIDUAL": self.residual, "SILU": self.silu, "CENTER": self.center, "num_warps": w})


class SwiGlu(Case):
    file, function, inputs, fixed = "elementwise", "glu", 2, {"ACTIVATION": "silu"}

    def torch(self, inputs, weight, bias):
        return F.silu(inputs[0]) * inputs[1]

    def arguments(self, i):
        (gate, up), out = self.sets[i]
        return out, gate, up, self.cols, self.cols, self.cols, self.rows, self.cols, self.rows_class

    def peers(self):
        count = self.rows * self.cols
        for block in (512, 1024, 2048, 4096):
            for w in (1, 2, 4, 8):
                yield (f"block {block} w{w}", peer_kernels.swiglu, -(-count // block),
                       lambda i: (self.sets[i][1], *self.sets[i][0], count), {"BLOCK": block, "num_warps": w})


def all_cases():
    for dtype in ("f32", "bf16"):
        for cols in SOFTMAX_COLS:
            yield Softmax, ("softmax", dtype, 4096, cols)
    for name in ("RMSNorm", "RMSNorm + residual", "RMSNorm + residual + SiLU", "LayerNorm", "LayerNorm + residual"):
        yield Norm, (name, "f16", 8192, 4096)
    yield SwiGlu, ("SwiGLU", "f16", 8192, 4096)
    yield ExpNormalise, ("exp(x) + 1 normalised", "f32", 4096, 4096)
    yield ScaledSoftmax, ("softmax * scale + bias", "f32", 4096, 4096)
    for cols in WIDE_COLS:  # of which 256 MB are read
        for make, name in ((Softmax, "softmax"), (Norm, "RMSNorm"), (Norm, "LayerNorm")):
            for dtype, size in (("bf16", 2), ("f32", 4)):
                yield make, (name, dtype, (256 << 20) // (size * cols), cols)
    for make, name, dtype in ((Softmax, "softmax", "bf16"), (Norm, "RMSNorm", "f16"), (Norm, "LayerNorm", "f16")):
        for cols in ODD_COLS:
            yield make, (name, dtype, 8192 if cols <= 4096 else 4096, cols)


def compare(case, pairs):
    failures = {}
    best, arms = side_by_side.best_of_sides(case, lambda side: getattr(case, side)(failures), failures)
    arms["triton again"] = arms["triton"]
    arms["tegula alone"] = case.alone(best["tegula"][2])
    arms["torch"] = [lambda i=i: case.torch(case.sets[i][0], case.weight, case.bias) for i in range(len(case.sets))]
    if case.compiled:
        compiled = torch.compile(case.torch)
        arms["torch.compile"] = [lambda i=i: compiled(case.sets[i][0], case.weight, case.bias) for i in range(len(case.sets))]
        error = harness.relative_error(arms["torch.compile"][0](), case.exact(0))
        if not error < case.tolerance[case.dtype_name]:
            raise RuntimeError(f"WRONG RESULT of torch.compile: {error:.2g}")
    if case.inputs == 1:
        arms["copy"] = [lambda x=x, out=out: out.copy_(x) for (x,), out in case.sets]
    traffic_ratio = None
    if hasattr(case, "separate"):
        arms["separate"], traffic_ratio = case.separate()
        case.check(arms["separate"][0])
    figures = side_by_side.measure(case, arms, pairs)
    error = max(case.check(work, i) for i, work in enumerate(arms["tegula"]))
    for i, work in enumerate(arms["triton"]):
        case.check(work, i)
    ratios = {"A/A": harness.ratio(figures["tegula again"], figures["tegula"]),
              "A/A triton": harness.ratio(figures["triton again"], figures["triton"])}
    others = {name: harness.ratio(figures[name], figures["tegula"]) for name in ("triton", "torch.compile") if name in figures}
    ratios |= others
    ratios["best other"] = min(others.values(), key=lambda r: r["median"])
    ratios["alone"] = harness.ratio(min((figures[n] for n in others), key=statistics.median), figures["tegula alone"])
    if traffic_ratio:
        ratios["separate"] = harness.ratio(figures["separate"], figures["tegula"])
    return side_by_side.report_row(case, figures, ratios, best, failures, cols=case.cols, bytes=case.bytes, method=case.method[0],
                                   error=error, rounds=figures, traffic_ratio=traffic_ratio)


# ---- Triton's kernels are compiled by processes of their own before this one opens the GPU: in one process they would
# wait for each other.

chosen = []  # the cases of this run, which those processes inherit


def compile_peer(recipe):
    number, wanted = recipe
    for label, function, _, arguments, how in chosen[number].recipes():
        if label == wanted:
            try:
                function.warmup(*arguments(0), grid=(1,), **how)
            except Exception:  # shows again where the kernel is wanted
                pass


def compile_peers():
    recipes = [(number, label) for number, case in enumerate(chosen) for label, *_ in case.make("cpu").recipes()]
    start = time.perf_counter()
    with multiprocessing.get_context("fork").Pool(min(14, os.cpu_count())) as pool:
        for _ in pool.imap_unordered(compile_peer, recipes, chunksize=4):
            pass
    print(f"{len(recipes)} kernels of Triton compiled in {time.perf_counter() - start:.0f} s", flush=True)


def compare_and_free(case, pairs):
    try:
        return compare(case, pairs)
    finally:
        case.sets = []


def main():
    start, options = time.perf_counter(), side_by_side.options(__doc__)
    chosen.extend(case for case in (make(*a) for make, a in all_cases()) if side_by_side.wanted(str(case), options))
    compile_peers()
    result = side_by_side.run("rows", [(str(case), case.make) for case in chosen], compare_and_free, options, start)
    text = report.table(result["rows"])
    softmax = [r["ratios"]["best other"]["median"] for r in result["rows"] if r["case"].startswith("softmax 4096") and r["cols"] in SOFTMAX_COLS]
    if softmax:
        text += f"\nsoftmax: {len(softmax)} points, geometric mean {statistics.geometric_mean(softmax):.3f}, least {min(softmax):.3f}"
    side_by_side.write("rows", text + "\n" + result["end"], report.markdown(result), options)
    folder = pathlib.Path(options.out)
    for dtype in ("f32", "bf16"):
        rows = [r for r in result["rows"] if r["case"].startswith("softmax 4096") and r["cols"] in SOFTMAX_COLS and r["case"].endswith(" " + dtype)]
        if rows:
            (folder / f"softmax_{dtype}.svg").write_text(report.plot(rows, f"softmax of 4096 rows, {dtype}, {result['device']}"))
    return 1 if result["missing"] else 0


if __name__ == "__main__":
    sys.exit(main())
