"""torch.compile with Triton or with Tegula below it: blocks of models (compiled_blocks.py), forward and backward.

    torch_compile.py {triton,tegula,both} [--blocks llama conv ...] [--threads N] [--rounds 20]

Prints for each block: seconds of the first forward and backward, of them in kernel compilation; how many kernels of
Inductor's ran and who compiled them; the time of a step, and of its kernels of Inductor's alone; the largest relative
errors of output and gradients against eager float32. For cold figures give fresh folders by TORCHINDUCTOR_CACHE_DIR,
TRITON_CACHE_DIR and TEGULA_CACHE_DIR. `--threads`: processes that compile for Triton (default: Inductor's own choice;
with 1 the seconds in kernel compilation are known). `both` runs the two one after the other, each with fresh caches and, if
nothing is said, one thread, and prints each kernel's times side by side; then both processes run steps in turns (Triton, Tegula, Triton), and the
median ratio of the times and that of Triton's two are printed.
"""

import argparse
import collections
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import torch
import torch._inductor.config as inductor_config

from compiled_blocks import BLOCKS

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "bindings" / "python"))

PAIRS = 15  #: rounds of steps in turns
READY = "ready\n"  #: what a process prints that awaits the names of blocks whose steps it is to time


class Watch:
    """Counts launches of Inductor's kernels and the time in which Triton compiles them in this process."""

    def __init__(self):
        import triton
        from torch._inductor.runtime import triton_heuristics as heuristics
        self.launches, self.seconds = collections.Counter(), 0.0
        run, compile_ = heuristics.CachingAutotuner.run, triton.compile

        def counted(autotuner, *args, **kwargs):
            self.launches[autotuner.fn.__name__] += 1
            return run(autotuner, *args, **kwargs)

        def timed(*args, **kwargs):
            begin = time.perf_counter()
            try:
                return compile_(*args, **kwargs)
            finally:
                self.seconds += time.perf_counter() - begin

        heuristics.CachingAutotuner.run, triton.compile = counted, timed


def step(block, x, gradient):
    block.zero_grad(set_to_none=True)
    x.grad = None
    out = block(x)
    out.backward(gradient)
    return out


def relative_error(found, expected):
    return ((found.float() - expected).norm() / expected.norm()).item()


def step_time(work, rounds):
    """Median milliseconds of a step."""
    times = []
    for _ in range(rounds):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        work()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end))
    return statistics.median(times)


def kernel_times(work, rounds):
    """Microseconds a round: all kernels of Inductor's together, and each by name. A kernel that was launched while the one
    before still ran (programmatic dependent launch) counts from the end of that one."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        for _ in range(rounds):
            work()
        torch.cuda.synchronize()
    spans = sorted((e.time_range.start, e.time_range.end, e.name) for e in profile.events()
                   if e.device_type == torch.autograd.DeviceType.CUDA and not e.is_user_annotation)
    times, reached = collections.Counter(), 0
    for start, end, name in spans:
        if name.startswith("triton_"):
            times[name] += max(0, end - max(start, reached)) / rounds
        reached = max(reached, end)
    return sum(times.values()), times


def measure(name, arguments, watch):
    torch.manual_seed(0)
    block = BLOCKS[name]().cuda()
    x = BLOCKS[name].example().cuda().requires_grad_()
    eager = step(block, x, gradient := torch.randn_like(block(x)) / 8).detach()
    expected = [eager, x.grad, *(p.grad for p in block.parameters())]
    block, x = block.to_bfloat16(), x.detach().bfloat16().requires_grad_()
    gradient = gradient.to(block(x).dtype)
    compiled = torch.compile(block)
    begin = time.perf_counter()
    out = step(compiled, x, gradient)
    torch.cuda.synchronize()
    first = time.perf_counter() - begin
    errors = [relative_error(a.detach(), b) for a, b in zip([out, x.grad, *(p.grad for p in block.parameters())], expected)]
    watch.launches.clear()
    step(compiled, x, gradient)
    launches, kernels = sum(watch.launches.values()), len(watch.launches)
    work = lambda: step(compiled, x, gradient)
    median = step_time(work, arguments.rounds)
    total, by_name = kernel_times(work, 10)
    print(f"{name:9} {arguments.by:7} first step {first:6.2f} s; {kernels} kernels, {launches} launches; step "
          f"{median:7.3f} ms, Inductor's kernels {total:8.1f} us; largest error {max(errors):.2e}")
    for kernel, us in sorted(by_name.items(), key=lambda e: -e[1]):
        print(f"    {us:8.2f} us  {kernel}")
    return work, {"first": first, "step": median, "kernels": dict(by_name)}


class Alone:
    """A process of its own that measures with fresh caches, and then times steps when it is asked to."""

    def __init__(self, by, arguments):
        self.folder = tempfile.TemporaryDirectory()
        path = pathlib.Path(self.folder.name)
        caches = {f"{name}_CACHE_DIR": str(path / name) for name in ("TORCHINDUCTOR", "TRITON", "TEGULA")}
        self.process = subprocess.Popen(
            [sys.executable, __file__, by, "--threads", str(arguments.threads or 1), "--rounds", str(arguments.rounds), "--json", str(path / "out.json"),
             "--turns", "--blocks", *arguments.blocks], env={**os.environ, **caches}, text=True, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE)
        while (line := self.process.stdout.readline()) and line != READY:
            pass
        if not line:
            raise SystemExit(f"the process with {by} ended with status {self.process.wait()}")
        self.measured = json.loads((path / "out.json").read_text())

    def step_time(self, block):
        print(block, file=self.process.stdin, flush=True)
        return float(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        self.folder.cleanup()


def compare(arguments):
    """Prints the times of both compilers' kernels; a ratio above 1: Tegula's is faster."""
    processes = [Alone(by, arguments) for by in ("triton", "tegula")]
    triton, tegula = (p.measured for p in processes)
    for name in arguments.blocks:
        theirs, ours = triton[name]["kernels"], tegula[name]["kernels"]
        print(f"{name}: Inductor's kernels, Triton / Tegula")
        for kernel in sorted(theirs, key=lambda k: -theirs[k]):
            if kernel in ours:
                print(f"    {theirs[kernel]:8.2f} {ours[kernel]:8.2f} us  {theirs[kernel] / ours[kernel]:6.3f}  {kernel}")
        shared = [k for k in theirs if ours.get(k)]
        mean = math.exp(statistics.fmean(math.log(theirs[k] / ours[k]) for k in shared))
        print(f"    {sum(theirs.values()):8.2f} {sum(ours.values()):8.2f} us  "
              f"{sum(theirs.values()) / sum(ours.values()):6.3f}  all; geometric mean {mean:.3f}")
        print(f"    step {triton[name]['step']:.3f} and {tegula[name]['step']:.3f} ms, first step "
              f"{triton[name]['first']:.2f} and {tegula[name]['first']:.2f} s")
        before, ours, after = zip(*([p.step_time(name) for p in (*processes, processes[0])] for _ in range(PAIRS)))
        ratios = [(a + c) / 2 / b for a, b, c in zip(before, ours, after)]
        print(f"    steps in turns: Triton {statistics.median(before):.3f}, Tegula {statistics.median(ours):.3f} ms, ratio "
              f"{statistics.median(ratios):.3f}; Triton beside itself {statistics.median(a / c for a, c in zip(before, after)):.3f}")
    for process in processes:
        process.close()
    theirs = triton["compiling"]
    for how, ours in ("elapsed", tegula["compiling"]), ("summed over threads", tegula["compiling_threads"]):
        print(f"kernel compilation {theirs:.2f} and {ours:.2f} s {how}: {ours / theirs:.3f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("by", choices=["triton", "tegula", "both"])
    parser.add_argument("--blocks", nargs="+", choices=list(BLOCKS), default=list(BLOCKS))
    parser.add_argument("--threads", type=int)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--json", help="file for what was measured")
    parser.add_argument("--turns", action="store_true", help="then read names of blocks, and print a step's time for each")
    arguments = parser.parse_args()
    if arguments.by == "both":
        return compare(arguments)
    if arguments.threads:
        inductor_config.compile_threads = arguments.threads
    torch.set_float32_matmul_precision("high")
    watch = Watch()
    if arguments.by == "tegula":
        import tegula_triton
        tegula_triton.install()
    print(torch.cuda.get_device_name(), "Python", sys.version.split()[0], "torch", torch.__version__)
    measured, steps = {}, {}
    for name in arguments.blocks:
        steps[name], measured[name] = measure(name, arguments, watch)
        if arguments.by == "tegula":
            print("   ", tegula_triton.report())
        print(f"    Triton compiled for {watch.seconds:.2f} s in this process")
    report = tegula_triton.report() if arguments.by == "tegula" else None
    measured["compiling"] = watch.seconds + (report.seconds if report else 0)
    measured["compiling_threads"] = watch.seconds + (report.thread_seconds if report else 0)
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(measured))
    if arguments.turns:
        print(READY, end="", flush=True)
        for name in sys.stdin:
            print(step_time(steps[name.strip()], arguments.rounds), flush=True)


if __name__ == "__main__":
    main()
