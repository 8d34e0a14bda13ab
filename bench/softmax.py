#!/usr/bin/env python3
"""Softmax by Tegula and by Triton: one kernel text, one process, the same tensors, both tuned.

    bench/softmax.py [--cols 1024,4096,16384 | --sweep] [--dtypes f32,bf16] [--out FILE]

Both compile the kernels of softmax_kernels.py for every configuration (kernel, warps, rows a program, stages); each side's
result is checked against torch.softmax in double precision and timed, and its best one goes into the comparison:
interleaved rounds (harness.py), in which also run the best Triton kernel once more (the A/A row: how far equal things
differ), each side with the other's configuration, torch.softmax, and a copy of the matrix. A ratio is the median over
rounds of Triton's time / Tegula's: above 1 Tegula is faster.
"""

import argparse
import dataclasses
import json
import math
import os
import pathlib
import statistics
import sys
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import torch
import triton

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "bindings" / "python")]
import harness
import softmax_kernels
import tegula

KERNELS = pathlib.Path(softmax_kernels.__file__).resolve()
SWEEP = [256, 781, 1024, 2048, 4096, 8192, 12672, 16384, 32768]
DTYPES = {"f32": (torch.float32, 1e-5), "bf16": (torch.bfloat16, 5e-3)}  # and the error allowed: roundings are far below
WORKERS = min(16, os.cpu_count() or 1)


@dataclass(frozen=True)
class Config:
    kernel: str  # in softmax_kernels.py
    warps: int
    rows: int = 1  # rows a program
    stages: int = 1
    block: int = 0  # columns at a time; 0: all
    maxnreg: int = 0  # registers a thread at most; 0: as many as the compiler takes
    overlap: bool = True  # Tegula's launches may overlap the kernel ahead

    def __str__(self):
        extra = {"softmax_row": "", "softmax_persistent": f" stages {self.stages}", "softmax_rows": f" rows {self.rows}",
                 "softmax_online": f" block {self.block} stages {self.stages}"}
        limit = f" maxnreg {self.maxnreg}" if self.maxnreg else ""
        alone = "" if self.overlap else " alone"
        return f"{self.kernel[len('softmax_'):]} w{self.warps}{extra[self.kernel]}{limit}{alone}"

    def constexprs(self, case):
        extra = {"softmax_row": {}, "softmax_persistent": {"STAGES": self.stages}, "softmax_rows": {"ROWS": self.rows},
                 "softmax_online": {"WIDTH": case.width, "STAGES": self.stages}}
        return {"BLOCK": self.block or case.block} | extra[self.kernel]

    def ints(self, case):
        """The int32 arguments, in order."""
        strides = {"out_stride": case.cols, "x_stride": case.cols}
        rows = {"rows": case.rows} if self.kernel in ("softmax_rows", "softmax_persistent") else {}
        return strides | rows | {"cols": case.cols}

    def grid(self, case, programs_per_sm):
        if self.kernel in ("softmax_row", "softmax_online"):
            return case.rows
        if self.kernel == "softmax_rows":
            return -(-case.rows // self.rows)
        return min(case.rows, case.sms * programs_per_sm)


def config_space(case):
    """All configurations with 2 to 128 elements a thread: fewer leave threads idle, more do not fit the registers."""
    block = case.block
    warps = [1, 2, 4, 8, 16, 32]
    space = [Config("softmax_row", w) for w in warps]
    space += [Config("softmax_persistent", w, stages=s) for w in warps for s in (1, 2, 3, 4)]
    if block <= 2048:
        space += [Config("softmax_rows", w, rows=r) for w in warps for r in (2, 4, 8, 16, 32)]
    space = [c for c in space if 2 <= block * c.rows / (32 * c.warps) <= 128]
    # Registers so few that 2 or 3 programs fit an SM, where the compiler might take more.
    limited = [(c, 65536 // (32 * c.warps * n) // 8 * 8) for c in space for n in (2, 3)
               if block >= 8192 and c.warps >= 8 and c.stages < 4]
    space += [dataclasses.replace(c, maxnreg=r) for c, r in limited if 1.2 * block / (32 * c.warps) <= r <= 128]
    if block >= 8192:
        space += [Config("softmax_online", w, stages=s, block=32 * w * case.width * n)
                  for w in (4, 8, 16, 32) for n in (1, 2) for s in (1, 3) if 32 * w * case.width * n * 4 <= block]
    return space


class Case:
    """A matrix shape and type, with enough input and output tensors that none stays in the L2 cache."""

    def __init__(self, rows, cols, dtype, device, method, graph_below_us):
        self.rows, self.cols, self.name = rows, cols, dtype
        self.dtype, self.tolerance = DTYPES[dtype]
        self.sms = device.multi_processor_count
        self.block = triton.next_power_of_2(cols)
        element_bytes = torch.empty(0, dtype=self.dtype).element_size()
        self.bytes = 2 * rows * cols * element_bytes
        self.width = 16 // element_bytes  # elements of one access
        expected_us = self.bytes / 4e6  # at most: 4 TB/s
        short = method == "graph" or (method == "auto" and expected_us < graph_below_us)
        self.method = ("graph", math.ceil(1000 / expected_us)) if short else ("flush", 5)
        self.flush_bytes = max(2 * device.L2_cache_size, 256 << 20)
        count = 1 + math.ceil(2 * device.L2_cache_size / self.bytes)
        self.x = [torch.randn(rows, cols, device="cuda", dtype=self.dtype) for _ in range(count)]
        self.y = [torch.empty_like(x) for x in self.x]
        self.exact = torch.softmax(self.x[0].double(), 1)

    def __str__(self):
        return f"{self.name} {self.rows}x{self.cols}"

    def check(self, work, index=0):
        """Runs `work`, the launch on set `index`, over a poisoned output. Returns the error; raises if it is large."""
        self.y[index].fill_(float("nan"))
        work()
        torch.cuda.synchronize()
        exact = self.exact if index == 0 else torch.softmax(self.x[index].double(), 1)
        error = harness.relative_error(self.y[index], exact)
        if not error < self.tolerance:
            raise RuntimeError(f"WRONG RESULT: relative error {error:.2g}, allowed {self.tolerance:g}")
        return error


@dataclass
class Entry:
    """One configuration of one compiler, ready to run."""
    side: str
    config: Config
    works: list  # a launching function for each tensor set
    registers: int
    local_bytes: int  # a thread: spilled registers, mostly
    shared: int
    grid: int
    error: float = math.nan
    us: float = math.nan


# ---- The two sides: each makes entries of configurations, or notes why not.


class Tegula:
    side = "tegula"

    def __init__(self):
        self.program = tegula.load(KERNELS)

    def entries(self, case, configs, failures):
        def build(config):
            try:
                how = config.constexprs(case) | {"num_warps": config.warps, "maxnreg": config.maxnreg or None}
                if not config.overlap:
                    how["dependent_launch"] = False
                return harness.TegulaKernel(self.program[config.kernel],
                                            (case.y[0], case.x[0], *config.ints(case).values()), **how)
            except tegula.Error as error:
                return error

        with ThreadPoolExecutor(WORKERS) as pool:
            kernels = list(pool.map(build, configs))
        seen = set()
        for config, kernel in zip(configs, kernels):
            if isinstance(kernel, Exception):
                failures[f"{self.side} {config}"] = str(kernel)
                continue
            facts = kernel.facts
            if facts.spill_bytes > 0:
                failures[f"{self.side} {config}"] = f"spills: {facts.spill_bytes} bytes a thread"
                continue
            grid = config.grid(case, kernel.programs_per_sm())
            if (kernel.digest, grid) in seen:  # the same code and launch as another configuration's
                continue
            seen.add((kernel.digest, grid))
            works = [kernel.launcher(grid, y, x, *config.ints(case).values()) for x, y in zip(case.x, case.y)]
            yield Entry(self.side, config, works, facts.registers, facts.spill_bytes, facts.shared_bytes, grid)


class Triton:
    side = "triton"

    def __init__(self, driver):
        self.driver = driver

    def entries(self, case, configs, failures):
        def call(config, method, index, **options):
            kernel = getattr(softmax_kernels, config.kernel)
            return getattr(kernel, method)(case.y[index], case.x[index], *config.ints(case).values(),
                                           **config.constexprs(case), num_warps=config.warps,
                                           maxnreg=config.maxnreg or None, **options)

        try:  # compile all of them side by side; what fails here is told below
            from triton.runtime import _async_compile
            try:
                with ThreadPoolExecutor(WORKERS) as pool, _async_compile.AsyncCompileMode(pool, ignore_errors=True):
                    for config in configs:
                        call(config, "warmup", 0, grid=(1,))
            finally:
                _async_compile.active_mode.set(None)
        except Exception as error:
            print(f"  (Triton compiles one by one: {type(error).__name__}: {error})")
        for config in configs:
            try:
                compiled = call(config, "warmup", 0, grid=(1,))
                if callable(getattr(compiled, "result", None)):
                    compiled = compiled.result()
                compiled._init_handles()
                shared = compiled.metadata.shared
                function = harness.ctypes.c_void_p(int(compiled.function))
                grid = config.grid(case, self.driver.programs_per_sm(function, config.warps, shared))
                works = [lambda config=config, index=index, grid=grid: call(config, "run", index, grid=(grid,), warmup=False)
                         for index in range(len(case.x))]
                local_bytes = self.driver.attribute(function, harness.LOCAL_BYTES)
                yield Entry(self.side, config, works, compiled.n_regs, local_bytes, shared, grid)
            except Exception as error:
                failures[f"{self.side} {config}"] = f"{type(error).__name__}: {error}"


# ---- Tuning and comparing.


def tune(case, side, configs, failures):
    """Right entries, fastest first; the fastest few were timed again, interleaved."""
    method, launches = case.method
    quick = harness.Interleaved(method, len(case.x), case.flush_bytes, min(launches, 64))
    entries, graphs = [], {}
    for entry in side.entries(case, configs, failures):
        try:
            entry.error = case.check(entry.works[0])
            graph = quick.prepare(entry.works)
            entry.us = statistics.median(quick.rounds({"": graph}, 5)[""])
            entries.append(entry)
            graphs[entry.config] = graph
        except Exception as error:
            failures[f"{entry.side} {entry.config}"] = str(error)
            if "ILLEGAL" in str(error) or "illegal" in str(error):
                raise
    entries.sort(key=lambda entry: entry.us)
    best = entries[:6]
    again = quick.rounds({entry.config: graphs[entry.config] for entry in best}, 15)
    for entry in best:
        entry.us = statistics.median(again[entry.config])
    return sorted(best, key=lambda entry: entry.us) + entries[len(best):]


def compare(case, options, sides):
    """One row of the table, as a dictionary."""
    start = time.perf_counter()
    failures, entries = {}, {}
    configs = config_space(case)
    for side in sides:
        entries[side.side] = []
        try:
            entries[side.side] = tune(case, side, configs, failures)
        except Exception as error:
            failures[side.side] = f"{type(error).__name__}: {error}"
    row = {
        "case": str(case), "rows": case.rows, "cols": case.cols, "dtype": case.name, "configs": len(configs),
        "tuning": {name: [{"config": str(e.config), "us": e.us, "registers": e.registers, "local_bytes": e.local_bytes,
                           "shared": e.shared, "grid": e.grid, "error": e.error} for e in side]
                   for name, side in entries.items()},
        "failures": failures, "tuning_s": time.perf_counter() - start,
    }

    def same_config(other, best):
        return next((e for e in entries[other] if e.config == best.config), None)

    works = {}
    best = {name: side[0] for name, side in entries.items() if side}
    if "tegula" in best:
        works["tegula"] = best["tegula"].works
        works["tegula again"] = best["tegula"].works
        alone = dataclasses.replace(best["tegula"].config, overlap=False)
        for entry in sides[0].entries(case, [alone], failures):
            works["tegula, no overlap"] = entry.works
        if other := same_config("triton", best["tegula"]):
            works["triton, tegula's config"] = other.works
    if "triton" in best:
        works["triton"] = best["triton"].works
        works["triton again"] = best["triton"].works
        if other := same_config("tegula", best["triton"]):
            works["tegula, triton's config"] = other.works
    sets = list(zip(case.x, case.y))
    works["torch.softmax"] = [lambda x=x, y=y: torch.softmax(x, 1, out=y) for x, y in sets]
    works["copy"] = [lambda x=x, y=y: y.copy_(x) for x, y in sets]

    method, launches = case.method
    timer = harness.Interleaved(method, len(case.x), case.flush_bytes, launches)
    arms = {}
    for name, work in works.items():
        try:
            arms[name] = timer.prepare(work)
        except Exception as error:
            failures[name] = f"{type(error).__name__}: {error}"
    timer.rounds(arms, 3)
    figures = timer.rounds(arms, options.pairs)
    # What was timed is still right, on every tensor set.
    for name in best:
        try:
            best[name].error = max(case.check(work, index) for index, work in enumerate(best[name].works))
        except Exception as error:
            failures[f"{name} after timing"] = str(error)
            arms.pop(name)
    row |= {"method": method, "launches": timer.launches, "sets": len(case.x), "us_rounds": figures,
            "us": {name: statistics.median(figures[name]) for name in arms},
            "gb_s": {name: case.bytes / statistics.median(figures[name]) / 1e3 for name in arms}, "best": {}}
    for name in best:
        row["best"][name] = {"config": str(best[name].config), "registers": best[name].registers,
                             "local_bytes": best[name].local_bytes, "shared": best[name].shared,
                             "grid": best[name].grid, "error": best[name].error}

    def add_ratio(key, slow, fast):
        if slow in arms and fast in arms:
            row.setdefault("ratios", {})[key] = harness.ratio(figures[slow], figures[fast])

    add_ratio("triton / tegula", "triton", "tegula")
    add_ratio("triton / tegula, no overlap", "triton", "tegula, no overlap")
    add_ratio("A/A triton", "triton again", "triton")
    add_ratio("A/A tegula", "tegula again", "tegula")
    add_ratio("triton / tegula, both tegula's config", "triton, tegula's config", "tegula")
    add_ratio("triton / tegula, both triton's config", "triton", "tegula, triton's config")
    add_ratio("torch.softmax / tegula", "torch.softmax", "tegula")
    row["seconds"] = time.perf_counter() - start
    return row


def print_details(row):
    print(f"\n{row['case']}: {row['configs']} configurations a side, {row['method']}, {row['launches']} launches a sample, "
          f"{row['sets']} tensor sets, {row['seconds']:.1f} s (tuning {row['tuning_s']:.1f})")
    for name, us in row["us"].items():
        best = row["best"].get(name)
        config = "" if not best else (f"  {best['config']}, {best['registers']} registers, {best['local_bytes']} B local, "
                                      f"{best['shared']} B shared, grid {best['grid']}, error {best['error']:.1e}")
        print(f"  {name:26s} {us:9.2f} us {row['gb_s'][name]:8.0f} GB/s{config}")
    for name, r in row.get("ratios", {}).items():
        print(f"  ratio {name:40s} {r['median']:.3f}  quartiles {r['low']:.3f} .. {r['high']:.3f}  of {r['pairs']}")
    for name, side in row["tuning"].items():
        print(f"  tuning {name}: " + ", ".join(f"{e['config']} {e['us']:.1f}" for e in side[:6]))
    for number, (name, why) in enumerate(row["failures"].items()):
        if number == 4:
            print(f"  ... {len(row['failures']) - 4} more failures, see the JSON file")
            break
        print(f"  FAILED {name}: {' '.join(why.split())[:300]}")
    sys.stdout.flush()


def print_table(rows):
    print(f"\n{'case':18s} {'tegula us':>9s} {'GB/s':>6s} {'triton us':>9s} {'GB/s':>6s} {'ratio':>6s} {'alone':>6s} {'A/A':>6s} "
          f"{'same cfg':>13s} {'torch us':>8s} {'of copy':>7s}  tegula's | triton's configuration")
    for row in rows:
        us, gb, ratios = row["us"], row["gb_s"], row.get("ratios", {})

        def figure(values, key, width, digits):
            return f"{values[key]:{width}.{digits}f}" if key in values else f"{'-':>{width}s}"

        medians = {key: r["median"] for key, r in ratios.items()}
        same = " ".join(figure(medians, f"triton / tegula, both {side}'s config", 6, 3) for side in ("tegula", "triton"))
        of_copy = f"{gb['tegula'] / gb['copy']:7.2f}" if "tegula" in gb and "copy" in gb else f"{'-':>7s}"
        configs = " | ".join(
            f"{b['config']} ({b['registers']} regs{', %d B local' % b['local_bytes'] if b['local_bytes'] else ''})"
            if (b := row["best"].get(side)) else "none" for side in ("tegula", "triton"))
        print(f"{row['case']:18s} {figure(us, 'tegula', 9, 2)} {figure(gb, 'tegula', 6, 0)} {figure(us, 'triton', 9, 2)} "
              f"{figure(gb, 'triton', 6, 0)} {figure(medians, 'triton / tegula', 6, 3)} "
              f"{figure(medians, 'triton / tegula, no overlap', 6, 3)} {figure(medians, 'A/A triton', 6, 3)} "
              f"{same} {figure(us, 'torch.softmax', 8, 2)} {of_copy}  {configs}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=4096)
    parser.add_argument("--cols", default="1024,4096,16384")
    parser.add_argument("--sweep", action="store_true", help=f"columns {SWEEP}")
    parser.add_argument("--dtypes", default="f32,bf16", help=", ".join(DTYPES))
    parser.add_argument("--pairs", type=int, default=31, help="interleaved rounds")
    parser.add_argument("--method", choices=["auto", "graph", "flush"], default="auto")
    parser.add_argument("--graph-below-us", type=float, default=30, help="auto: graph for kernels faster than this")
    parser.add_argument("--budget", type=float, default=170, help="seconds after which no further case is begun")
    parser.add_argument("--out", help="JSON file")
    options = parser.parse_args()
    start = time.perf_counter()

    device = torch.cuda.get_device_properties(0)
    driver = harness.Driver()
    sides = [Tegula(), Triton(driver)]
    report = {"device": device.name, "target": tegula.Device.cuda().target, "torch": torch.__version__, "triton": triton.__version__,
              "cuda": torch.version.cuda, "l2_bytes": device.L2_cache_size, "rows": []}
    print(f"{device.name}, {device.multi_processor_count} SMs, L2 {device.L2_cache_size >> 20} MiB, torch {torch.__version__}, "
          f"triton {triton.__version__}, {WORKERS} compiling threads", flush=True)
    torch.manual_seed(0)

    wanted = SWEEP if options.sweep else [int(n) for n in options.cols.split(",")]
    skipped, broken = [], []
    for dtype in options.dtypes.split(","):
        for cols in wanted:
            if time.perf_counter() - start > options.budget:
                skipped.append(f"{dtype} {options.rows}x{cols}")
                continue
            try:
                case = Case(options.rows, cols, dtype, device, options.method, options.graph_below_us)
                row = compare(case, options, sides)
                report["rows"].append(row)
                print_details(row)
            except Exception as error:
                broken.append(f"{dtype} {options.rows}x{cols}")
                traceback.print_exc()
                print(f"FAILED {broken[-1]}: {type(error).__name__}: {error}", flush=True)
            if options.out:
                with open(options.out, "w") as file:
                    json.dump(report, file)
    print_table(report["rows"])
    wrong = [row["case"] for row in report["rows"] if not all(side in row["us"] for side in ("tegula", "triton"))]
    if skipped:
        print(f"no time left for: {', '.join(skipped)}")
    medians = [row["ratios"]["triton / tegula"]["median"] for row in report["rows"]
               if "triton / tegula" in row.get("ratios", {})]
    print(f"{len(medians)} comparisons, triton / tegula {min(medians, default=math.nan):.3f} .. "
          f"{max(medians, default=math.nan):.3f}, failed: {', '.join(broken + wrong) or 'none'}, "
          f"{time.perf_counter() - start:.0f} s")
    return 1 if broken or wrong else 0


if __name__ == "__main__":
    sys.exit(main())
