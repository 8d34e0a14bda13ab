#!/usr/bin/env python3
"""Random kernels on the emulator, or with TEGULA_DEVICE=gpu on the GPU, beside a reference in double precision.

    fuzz.py --seconds 60 [--jobs 2] [--first 1000]    new kernels for so long; what is wrong is made smaller and printed
    fuzz.py --count 200 --first 0                     kernels 0 to 199
    fuzz.py --show 17                                 kernel 17 and what is found
    fuzz.py --reduce 17                               the smallest kernel that is wrong as kernel 17 is

Kernels are numbered: a number gives the kernel, its data and options, the target, and the order of threads. Exits with
0 if nothing was wrong, with 77 if there is no numpy. Kernels whose result the reference cannot tell are passed over.
On SIGINT and SIGTERM it ends as when its time is over. With --registers FILE, the program ptx_registers of the build
folder, each kernel is made PTX of too, in which registers are looked for that are read before they are set."""

import argparse
import collections
import concurrent.futures
import ctypes.util
import gc
import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
import warnings

HERE = pathlib.Path(__file__).resolve().parent
BATCH = 200  # kernels with one setting, the same in all of a process
REQUEST = 5 if os.environ.get("TEGULA_DEVICE") == "gpu" else 20  # of them that a process is asked for at once
SETTINGS = [("sm_90a", 0, 0), ("sm_90a", 1, 1), ("sm_80", 0, 0), ("sm_80", 2, 0), ("sm_90a", 3, 2), ("sm_89", 4, 0)]
LIMIT = "20s"  # of a launch
PATIENCE = 60  # seconds for a request, or for a kernel alone
FINE = ("right", "undecided", "refused")
REDUCED = 3  # findings that are made smaller
try:
    import numpy  # noqa: F401
except ImportError:
    print("[  SKIPPED ]\nfuzz.py: Skipped\nnumpy is not installed for", sys.executable)  # as ./dev test looks for it
    sys.exit(77)


def setting(seed):
    """The target of a kernel, the order of its threads, and blocks where these take programs in turns (0: one a program)."""
    return SETTINGS[seed // BATCH % len(SETTINGS)]


def environment(seed):
    """What a process that runs this kernel has for its setting."""
    target, order, blocks = setting(seed)
    allocator = ctypes.util.find_library("mimalloc")  # a compiler allocates a lot
    return {
        **os.environ,
        **({"LD_PRELOAD": allocator} if allocator and "LD_PRELOAD" not in os.environ else {}),
        "TEGULA_DEVICE": os.environ.get("TEGULA_DEVICE") or "emulator",
        "TEGULA_TARGET": target,
        "TEGULA_EMULATOR_SEED": str(order),
        "TEGULA_EMULATOR_BLOCKS": str(blocks),
        "TEGULA_EMULATOR_LIMIT": LIMIT,
        "TEGULA_CACHE_SIZE": "0",
        "TEGULA_WARNINGS": "off",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1"
    }


def work():
    """Reads a case (or numbers of kernels) a line, and answers with a line of the verdict on each."""
    sys.path.insert(0, str(HERE))
    import check
    import generate
    warnings.simplefilter("ignore")
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the library prints is no answer
    gc.freeze()
    for line in sys.stdin:
        given = json.loads(line)
        for case in map(generate.case, given) if isinstance(given, list) else [given]:
            kind, text = check.verdict(case)
            answers.write(json.dumps((kind, text)) + "\n")
            if kind == "DeviceError":  # a GPU's context is lost
                return answers.close()
        answers.flush()


class Worker:
    """A process that tells verdicts, and is replaced when it dies."""

    def __init__(self, seed):
        self.environment, self.process = environment(seed), None

    def start(self):
        self.process = subprocess.Popen([sys.executable, __file__, "--work"],
                                        env=self.environment,
                                        text=True,
                                        stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE,
                                        start_new_session=True)  # Ctrl-C ends fuzz.py, which ends them
        self.told = collections.deque(maxlen=20)
        threading.Thread(target=self.told.extend, args=(self.process.stderr, ), daemon=True).start()

    def ask(self, given, count):
        """`count` verdicts, or fewer if the process ended before."""
        if self.process is None:
            self.start()
        timer = threading.Timer(PATIENCE, self.process.kill)
        timer.start()
        answers = []
        try:
            self.process.stdin.write(json.dumps(given) + "\n")
            self.process.stdin.flush()
            while len(answers) < count and (answer := self.process.stdout.readline()).endswith("\n"):
                answers.append(tuple(json.loads(answer)))
        except BrokenPipeError:
            pass
        timer.cancel()
        if answers and answers[-1][0] == "DeviceError":  # behind which the process ends
            self.close()
        return answers

    def verdict(self, case):
        """Of a case, or of the kernel with a number."""
        if answers := self.ask([case] if isinstance(case, int) else case, 1):
            return answers[0]
        with self.process as ended:
            code = ended.wait()
        self.process = None
        if code == -signal.SIGKILL:
            return "hang", f"no end in {PATIENCE} s"
        return "crash", f"status {code}\n" + "".join(self.told)

    def verdicts(self, seeds):
        """Of kernels with these numbers: together, and those again one by one that have no answer then."""
        answers = self.ask(seeds, len(seeds))
        if len(answers) < len(seeds):
            self.close()
        return answers + [self.verdict(seed) for seed in seeds[len(answers):]]

    def close(self):
        if self.process:
            with self.process:  # closes its pipes, and waits
                self.process.stdin.close()
            self.process = None


class Workers:
    """Processes that have nothing to do, kept for kernels of the same setting."""

    def __init__(self, most):
        self.most, self.lock, self.idle = most, threading.Lock(), collections.deque()

    def take(self, seed):
        with self.lock:
            for place, (at, worker) in enumerate(self.idle):
                if at == setting(seed):
                    del self.idle[place]
                    return worker
        return Worker(seed)

    def give(self, seed, worker):
        with self.lock:
            self.idle.append((setting(seed), worker))
            left = self.idle.popleft()[1] if len(self.idle) > self.most else None
        if left:
            left.close()

    def close(self):
        while self.idle:
            self.idle.popleft()[1].close()


def run_request(workers, seeds, out_of_time):
    """[(seed, kind, text)] of kernels of one setting."""
    if out_of_time():
        return []
    first, worker = seeds[0], workers.take(seeds[0])
    results = [(seed, *verdict) for seed, verdict in zip(seeds, worker.verdicts(seeds))]
    workers.give(first, worker)
    return results


def requests(first, count, wanted=lambda seed: True):
    """Numbers of kernels in parts that have one setting each."""
    part = []
    for seed in range(first, first + count):
        if part and (len(part) == REQUEST or seed % BATCH == 0):
            yield part
            part = []
        if wanted(seed):
            part.append(seed)
    if part:
        yield part


def fuzz(first, count, seconds, jobs, reduced=REDUCED, ended=lambda: False, summary=None, wanted=lambda seed: True):
    """`ended`: whether to end before the time is over. `summary`: a file that says how far it has come. `wanted`: of which
    numbers."""
    begun = time.monotonic()
    out_of_time = lambda: time.monotonic() > begun + seconds or ended()
    counts, found = collections.Counter(), []

    def told():
        text = f"kernels from {first}: " + ", ".join(f"{n} {kind}" for kind, n in counts.most_common())
        text += f" ({sum(counts.values()) / (time.monotonic() - begun):.0f} a second)"
        if summary:
            summary.write_text(text + "\n")
        return text

    workers = Workers(max(2 * jobs, len(SETTINGS)))
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        waiting = set()

        def note_those_done():
            nonlocal waiting
            done, waiting = concurrent.futures.wait(waiting, return_when=concurrent.futures.FIRST_COMPLETED)
            for request in done:
                note(request.result(), counts, found)
            told()

        for part in requests(first, count, wanted):
            waiting.add(pool.submit(run_request, workers, part, out_of_time))
            while len(waiting) > 2 * jobs:
                note_those_done()
            if out_of_time():
                break
        while waiting:
            note_those_done()
    workers.close()
    print(told(), flush=True)
    for seed, kind, text in sorted(found)[:reduced]:
        if not ended():
            reduce(seed, 60, ended)
    return 1 if found or counts["right"] == 0 else 0


def note(results, counts, found):
    for seed, kind, text in results:
        counts[kind] += 1
        if kind not in FINE:
            found.append((seed, kind, text))
            print(f"kernel {seed}: {kind}: {text}\n  see fuzz.py --show {seed}", flush=True)


def reduce(seed, seconds, ended=lambda: False):
    """Prints the smallest kernel found that is as wrong as this one."""
    sys.path.insert(0, str(HERE))
    import generate
    import reduce as reducer
    worker, case, deadline = Worker(seed), generate.case(seed), time.monotonic() + seconds
    kind = worker.verdict(case)[0]
    if kind in FINE:
        print(f"kernel {seed} is {kind}")
        return
    small = reducer.reduced(case, lambda c: worker.verdict(c)[0] == kind, lambda: time.monotonic() > deadline or ended())
    show(seed, small, worker.verdict(small))
    worker.close()


def show(seed, case, verdict):
    target, order, blocks = setting(seed)
    rest = {k: v for k, v in case.items() if k not in ("text", "arrays")}
    print(f"kernel {seed}, TEGULA_TARGET={target} TEGULA_EMULATOR_SEED={order} TEGULA_EMULATOR_BLOCKS={blocks}\n{case['text']}# {rest}")
    for name, array in case["arrays"].items():
        print(f"# {name}: {array}")
    print(f"{verdict[0]}: {verdict[1]}\n", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--count", type=int)
    parser.add_argument("--first", type=int, help="the first kernel's number; else one that follows from the time")
    parser.add_argument("--only", choices=["product-loops", "product-nests", "product-chains", "expressions"],
                        help="of these numbers, kernels that are one loop of products, matrix products as people write them, "
                        "one loop of several products, or many elementwise expressions")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--reduced", type=int, default=REDUCED, help="how many findings are made smaller")
    parser.add_argument("--show", type=int, metavar="NUMBER")
    parser.add_argument("--reduce", type=int, metavar="NUMBER")
    parser.add_argument("--summary", type=pathlib.Path, metavar="FILE", help="a file for the last line, kept up to date")
    parser.add_argument("--registers", type=os.path.abspath, metavar="FILE", help="the program ptx_registers")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.work:
        return work()
    if given.registers:
        os.environ["TEGULA_PTX_REGISTERS"] = given.registers  # of the processes that work
    if given.reduce is not None:
        return reduce(given.reduce, max(given.seconds, 60))
    if given.show is not None:
        sys.path.insert(0, str(HERE))
        import generate
        worker, case = Worker(given.show), generate.case(given.show)
        show(given.show, case, worker.verdict(case))
        return worker.close()
    first = int(time.time()) * 100 if given.first is None else given.first
    seconds = given.seconds if given.count is None else 1e9
    ends = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, frame: ends.append(number))
    wanted = lambda seed: True
    if given.only:
        sys.path.insert(0, str(HERE))
        import generate
        wanted = generate.FORMS[given.only]
    return fuzz(first, 10**9 if given.count is None else given.count, seconds, given.jobs, given.reduced,
                lambda: bool(ends), given.summary, wanted)


if __name__ == "__main__":
    sys.exit(main())
