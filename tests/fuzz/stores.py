#!/usr/bin/env python3
"""The cache of kernels and the store of tuning results under what happens to files.

    stores.py --command build/release/tegula [--seconds 60] [--processes 64]

Rounds, each in a folder of its own, in which many processes of the command work on a few kernels at once while some are
killed (kill -9), bits of files flip, files are cut short or removed, or the disk is full. Whatever happens, a process that
is left alone succeeds and prints what the first one printed, kernels compute what they did before, and the folder stays
usable and within its bound. Exits with 0 if that was so."""

import argparse
import json
import os
import pathlib
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time

KERNEL = """import triton
import triton.language as tl


@triton.jit
def kernel(y_ptr, x_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.load(x_ptr + at, mask=at < n) * {scale} + 1, mask=at < n)
"""
KERNELS = [(scale, block) for scale in range(2, 8) for block in (64, 128)]
ROW = {
    "kernel": "k",
    "key": "n=1",
    "gpu": "emulator",
    "driver": "none",
    "config": "BLOCK=1",
    "status": "timed",
    "times_us": [1.0],
    "predicted_us": 1.0,
    "registers": 0,
    "spill_bytes": 0,
    "shared_bytes": 0,
    "measured_at": 1
}
BOUND = 60_000  # bytes of the cache in rounds that evict
MOST_BYTES = 2000  # of a file where the disk is full
PATIENCE = 120  # seconds for a process


class Round:
    """A folder, processes that work in it, and what befalls them."""

    def __init__(self, command, seed, folder):
        self.command, self.random, self.folder = command, random.Random(seed), folder
        self.cache = folder / "cache"
        self.bound = self.random.choice([None, BOUND])
        for scale, _ in KERNELS:
            (folder / f"k{scale}.py").write_text(KERNEL.format(scale=scale))
        rows = [{**ROW, "config": f"BLOCK={i}", "key": f"n={i % 3}"} for i in range(30)]
        (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    def start(self, arguments, full=False):
        environment = {**os.environ, "TEGULA_CACHE_DIR": str(self.cache), "TEGULA_DEVICE": "emulator"}
        if self.bound:
            environment["TEGULA_CACHE_SIZE"] = str(self.bound)

        def fill_disk():  # writes beyond that many bytes of a file fail
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (MOST_BYTES, MOST_BYTES))

        # Pipes, which the limit leaves alone.
        return subprocess.Popen([self.command, *arguments],
                                cwd=self.folder,
                                env=environment,
                                text=True,
                                errors="replace",
                                stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE,
                                preexec_fn=fill_disk if full else None)

    @staticmethod
    def run_of(kernel):
        scale, block = kernel
        return [
            "run", f"k{scale}.py::kernel", "--random", "x_ptr=f32[300]", "--zeros", "y_ptr=f32[300]", "--arg", "n=300",
            "--constexpr", f"BLOCK={block}", "--grid", "cdiv(n, BLOCK)"
        ]

    def work(self):
        """Arguments of a process, and the kernel that it runs, if any."""
        if self.random.random() < .3:
            return self.random.choice([["cache", "--import", "rows.jsonl"], ["cache", "--export", "-"],
                                       ["cache"]]), None
        kernel = self.random.choice(KERNELS)
        return self.run_of(kernel), kernel

    def damage(self):
        """Flips a bit of a file, cuts it short, or removes it; but of SQLite's "-shm", which is no stored data but memory that
        living processes share: whoever cuts that ends them."""
        try:
            path = self.random.choice([path for path in self.cache.iterdir() if not path.name.endswith("-shm")])
            kind = self.random.choice(["flip", "cut", "remove"])
            if kind == "remove":
                path.unlink()
                return
            with open(path, "r+b") as file:
                size = os.fstat(file.fileno()).st_size
                if kind == "cut":
                    file.truncate(self.random.randrange(size))
                else:
                    at = self.random.randrange(size)
                    file.seek(at)
                    byte = file.read(1)[0] ^ 1 << self.random.randrange(8)
                    file.seek(at)
                    file.write(bytes([byte]))
        except (OSError, IndexError, ValueError):  # gone, or empty
            pass

    def expect(self, process, arguments, kernel, right):
        """What is wrong with a process that was left alone, or nothing."""
        try:
            out, errors = process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            return f"{arguments}: no end in {PATIENCE} s"
        if process.returncode < 0 or "internal error" in errors.lower():
            return f"{arguments}: status {process.returncode}\n{out}{errors}"
        if kernel and process.returncode:
            return f"{arguments}: status {process.returncode}\n{out}{errors}"
        if kernel and out != right.setdefault(kernel, out):
            return f"{arguments}: printed\n{out}expected\n{right[kernel]}"
        return None

    def go(self, processes, kind, right):
        """What went wrong in a round of that many processes, as a list of texts."""
        wrong, alive = [], []
        for _ in range(processes):
            arguments, kernel = self.work()
            alive.append((self.start(arguments, kind == "full" and self.random.random() < .5), arguments, kernel))
            time.sleep(self.random.random() * .02)
            if kind == "damage":
                self.damage()
            if kind == "kill" and self.random.random() < .5:
                victim = alive.pop(self.random.randrange(len(alive)))[0]
                time.sleep(self.random.random() * .05)
                victim.kill()
                victim.communicate()
        for process, arguments, kernel in alive:
            wrong.append(self.expect(process, arguments, kernel, right))
        for kernel in KERNELS:  # behind it all
            arguments = self.run_of(kernel)
            wrong.append(self.expect(self.start(arguments), arguments, kernel, right))
        size = sum(p.stat().st_size for p in self.cache.iterdir() if p.suffix in (".image", ".link", ".code"))
        if self.bound and size > 2 * self.bound:
            wrong.append(f"the cache has {size} bytes, its bound is {self.bound}")
        return [text for text in wrong if text]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--command", required=True, type=os.path.abspath)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--processes", type=int, default=64)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    given = parser.parse_args()
    end, rounds, right, failed = time.monotonic() + given.seconds, 0, {}, False
    while not rounds or time.monotonic() < end:
        kind = ["kill", "damage", "full"][rounds % 3]
        with tempfile.TemporaryDirectory(prefix="tegula-stores-") as folder:
            wrong = Round(given.command, given.seed + rounds, pathlib.Path(folder)).go(given.processes, kind, right)
        for text in wrong:
            print(f"seed {given.seed + rounds}, {kind}: {text}", flush=True)
        failed |= bool(wrong)
        rounds += 1
    print(f"{rounds} rounds of {given.processes} processes, seeds from {given.seed}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
