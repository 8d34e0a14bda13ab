#!/usr/bin/env python3
"""Kernels of training steps: gradients of norms, cross entropy, sums of columns, quantisation, order, embeddings, optimiser
steps (training_cases.py). Tegula, Triton on the same text, torch, torch.compile and a copy of as many bytes, on the same
tensors in one process.

    bench/training.py [--only TEXT...] [--pairs 21] [--budget SECONDS] [--out FOLDER] [--triton N] [--check]

Tegula's kernels are those of kernels/ over all configurations of their files, checked against double precision; Triton
runs the same texts over the N configurations that Tegula found best, with rows padded to powers of two. Interleaved
rounds with a flushed cache (harness.py). Figures are GB/s of the bytes that the computation has to move. With --check small
shapes run on the CPU, by the emulator, and nothing is timed.
"""

import argparse
import statistics
import sys
import time
import traceback

import torch

import harness
import side_by_side
import training_cases
from side_by_side import jit_function, load_module, tegula


def candidates(case):
    """(label, how, launching function) of each configuration that compiles and does not spill."""
    kernel = case.kernel()

    def build(item):
        label, how = item
        arguments = case.arguments(how) if isinstance(case, training_cases.AdamW) else case.arguments()
        how = case.complete(how)
        try:
            facts = kernel.facts(*arguments, **how) if training_cases.DEVICE == "cuda" else None
        except tegula.Error as error:
            print(f"  {label}: {error}")
            return None
        if facts and facts.spill_bytes > 0:
            print(f"  {label}: {facts.spill_bytes} bytes spilled")
            return None
        launch = kernel[grid_of(case, how)]
        registers = f" ({facts.registers} regs)" if facts else ""
        return label + registers, how, lambda: launch(*arguments, **how)

    with side_by_side.ThreadPoolExecutor(16) as pool:
        return [found for found in pool.map(build, list(case.configs())) if found]


def grid_of(case, how):
    grid = case.grid(how)
    return grid if isinstance(grid, tuple) else (grid, )


def timer_of(launches):
    flush = max(2 * torch.cuda.get_device_properties(0).L2_cache_size, 256 << 20)
    return harness.Interleaved("flush", 1, flush, launches)


def fastest(works, count, rounds=5):
    """The labels of the fastest ones, with their microseconds."""
    timer = timer_of(2)
    figures = timer.rounds({label: timer.prepare([work]) for label, work in works.items()}, rounds)
    return sorted(((statistics.median(f), label) for label, f in figures.items()))[:count]


def triton_arms(case, hows):
    function = jit_function(getattr(load_module(case.file), case.function))
    for label, how in hows:
        arguments = case.arguments(how) if isinstance(case, training_cases.AdamW) else case.arguments()
        how = case.complete({k: v for k, v in how.items() if k not in ("BLOCK", "EVEN")}, power_of_two=True)
        how = {k: getattr(training_cases.TILES.tl, v.name) if isinstance(v, tegula.dtype) else v for k, v in how.items()}
        launch = function[grid_of(case, how)]
        work = lambda launch=launch, arguments=arguments, how=how: launch(*arguments, **how)
        try:
            case.check(work)
            yield label, work
        except Exception as error:
            print(f"  triton {label}: {str(error)[:300]}")


def compare(case, options):
    works, hows = {}, {}
    for label, how, work in candidates(case):
        try:
            error = case.check(work)
            works[label], hows[label] = work, how
        except Exception as wrong:
            print(f"  {label}: {str(wrong)[:300]}")
    best = fastest(works, 8)
    print("  tegula: " + "; ".join(f"{label} {us:.1f}" for us, label in best), flush=True)
    arms = {"tegula": works[best[0][1]]}
    arms["tegula again"] = arms["tegula"]
    if options.triton:
        found = dict(triton_arms(case, [(label, hows[label]) for _, label in best[:options.triton]]))
        if found:
            ((us, label),) = fastest(found, 1)
            print(f"  triton: {label} {us:.1f}", flush=True)
            arms["triton"] = found[label]
    try:
        for name, work in case.peers():
            arms[name] = work
    except Exception:
        traceback.print_exc()
    source = torch.empty(case.bytes // 4, dtype=torch.int16, device=training_cases.DEVICE)
    target = torch.empty_like(source)
    arms["copy"] = lambda: target.copy_(source)
    timer = timer_of(3)
    prepared = {name: timer.prepare([work]) for name, work in arms.items()}
    timer.rounds(prepared, 2)
    figures = timer.rounds(prepared, options.pairs)
    harness.print_figures(figures, lambda us: f"{case.bytes / us / 1e3:8.0f} GB/s")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", help="cases whose names have one of these texts")
    parser.add_argument("--pairs", type=int, default=21, help="interleaved rounds")
    parser.add_argument("--budget", type=float, default=400, help="seconds after which no further case is begun")
    parser.add_argument("--triton", type=int, default=0, help="configurations that Triton runs")
    parser.add_argument("--check", action="store_true", help="small shapes on the emulator, results alone")
    options = parser.parse_args()
    start = time.perf_counter()
    torch.manual_seed(0)
    training_cases.DEVICE = "cpu" if options.check else "cuda"
    training_cases.SMS = 4 if options.check else torch.cuda.get_device_properties(0).multi_processor_count
    for case in training_cases.SMALL if options.check else training_cases.CASES:
        if options.only and not any(text in str(case) for text in options.only):
            continue
        if time.perf_counter() - start > options.budget:
            print(f"{case}: no time")
            continue
        print(f"{case} [{time.perf_counter() - start:.0f} s]", flush=True)
        case.make()
        if options.check:
            print("  worst error", max(case.check(work) for _, _, work in candidates(case)))
            continue
        try:
            compare(case, options)
        except Exception:
            traceback.print_exc()
        case.__dict__.clear()
        torch.cuda.empty_cache()
    return 0


if __name__ == "__main__":
    sys.exit(main())
