"""Host time of a launch from Python: Tegula's kernel, Triton's function launched by Tegula and by Triton, an operation of
torch's. A round times a block of launches of each way in turn, shorter than the driver's queue, which is empty when a
block begins.

    launch_python.py [--rounds 31] [--launches 400]
"""

import argparse
import pathlib
import statistics
import sys
import time

import torch
import triton
import triton.language as tl

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "bindings" / "python"))
import tegula_triton


@triton.jit
def add(out, x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    tl.store(out + i, tl.load(x + i, mask=mask) + tl.load(y + i, mask=mask), mask=mask)


@triton.autotune([triton.Config({"BLOCK": 256}), triton.Config({"BLOCK": 512})], key=["n"])
@triton.jit
def tuned(out, x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    tl.store(out + i, tl.load(x + i, mask=mask) + tl.load(y + i, mask=mask), mask=mask)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=31)
    parser.add_argument("--launches", type=int, default=400)
    arguments = parser.parse_args()
    x, y = torch.randn(4096, device="cuda"), torch.randn(4096, device="cuda")
    out, n = torch.empty_like(x), 4096
    ours = tegula_triton.kernel_of(add)
    grid = lambda meta: (triton.cdiv(n, meta["BLOCK"]), )

    def repeat(launch):
        def block(count):
            for _ in range(count):
                launch()
        return block

    by_triton = {
        "Triton": lambda: add[(16, )](out, x, y, n, BLOCK=256),
        "Triton, grid function": lambda: add[grid](out, x, y, n, BLOCK=256),
        "Triton, autotuned": lambda: tuned[grid](out, x, y, n),
    }
    ways = {
        "tegula": (lambda: ours[(16, )](out, x, y, n, BLOCK=256), False),
        "tegula again": (lambda: ours[(16, )](out, x, y, n, BLOCK=256), False),
        "tegula, grid function": (lambda: ours[grid](out, x, y, n, BLOCK=256), False),
        "tegula, general way": (lambda: ours._launch((16, ), (out, x, y, n), {"BLOCK": 256}), False),
        **{"drop-in: " + name: (launch, True) for name, launch in by_triton.items()},
        **{name: (launch, False) for name, launch in by_triton.items()},
        "torch.add(out=)": (lambda: torch.add(x, y, out=out), False),
    }
    times = {name: [] for name in ways}
    for round_ in range(arguments.rounds + 3):
        for name, (launch, installed) in list(ways.items())[::1 if round_ % 2 else -1]:
            (tegula_triton.install if installed else tegula_triton.uninstall)()
            launch()
            torch.cuda.synchronize()
            begin = time.perf_counter()
            repeat(launch)(arguments.launches)
            took = (time.perf_counter() - begin) / arguments.launches * 1e6
            torch.cuda.synchronize()
            if round_ >= 3:
                times[name].append(took)
            torch.testing.assert_close(out, x + y)
    print(torch.cuda.get_device_name(), "Python", sys.version.split()[0], "torch", torch.__version__)
    for name, found in times.items():
        print(f"{name:34} {statistics.median(found):7.2f} us  (least {min(found):.2f})")


if __name__ == "__main__":
    main()
