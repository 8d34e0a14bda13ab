#!/usr/bin/env python3
"""Does the cost model rank, how long does tuning take, and what does it lose? The irregular products of gemm.py.

    bench/tuning.py [--only TEXT...] [--tegula build/release/tegula] [--budget SECONDS] [--out FOLDER]

Each product is tuned twice, in processes of their own with an empty cache: as kernels/gemm.py says, where the model leaves the
best few to be timed, and with all configurations timed. From the second run come Spearman's rank correlation of predicted and
measured times, the place at which the model has the first configuration that is within 1 % of the best one, and what the first
run's choice loses against the best one. Seconds are those of the first launch, compilation included."""

import argparse
import json
import multiprocessing
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

import torch

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "bindings" / "python")]
import gemm
from side_by_side import ROOT, load_module, tegula, wanted


def ranks(values):
    order = sorted(range(len(values)), key=values.__getitem__)
    found = [0.0] * len(values)
    for place, i in enumerate(order):
        found[i] = place
    return found


def spearman(a, b):
    return statistics.correlation(ranks(a), ranks(b)) if len(a) > 2 else float("nan")


def first_launch(text, shape, cache, answer):
    """In a process of its own: how long the first launch takes, seconds."""
    os.environ["TEGULA_CACHE_DIR"] = cache
    case = gemm.Gemm("tuning", "f16", *shape).make()
    kernel = tegula.load(text).gemm
    torch.cuda.synchronize()
    start = time.perf_counter()
    kernel[lambda how: (case.tiles(how),)](*case.arguments(0), EPILOGUE="none", ATOMIC=False)
    torch.cuda.synchronize()
    seconds = time.perf_counter() - start
    case.check(lambda: kernel[lambda how: (case.tiles(how),)](*case.arguments(0), EPILOGUE="none", ATOMIC=False))
    answer.send(seconds)


def tune(text, shape, options):
    """Seconds, and the rows that tuning has stored."""
    with tempfile.TemporaryDirectory() as cache:
        answer, there = multiprocessing.Pipe(False)
        process = multiprocessing.Process(target=first_launch, args=(text, shape, cache, there))
        process.start()
        there.close()
        seconds = answer.recv()
        process.join()
        rows = pathlib.Path(cache, "rows.jsonl")
        subprocess.run([options.tegula, "cache", "--export", str(rows)], check=True, stdout=subprocess.DEVNULL,
                       env=os.environ | {"TEGULA_CACHE_DIR": cache})
        return seconds, [json.loads(line) for line in rows.read_text().splitlines()]


def compare(shape, all_timed, options):
    seconds, few = tune(str(ROOT / "kernels" / "gemm.py"), shape, options)
    seconds_of_all, rows = tune(all_timed, shape, options)
    chosen = next(r["config"] for r in few if r.get("winner"))
    timed = [r for r in rows if r["times_us"] and r["predicted_us"] > 0]
    measured = {r["config"]: statistics.median(r["times_us"]) for r in timed}
    order = sorted(timed, key=lambda r: r["predicted_us"])
    best = min(measured.values())
    return {"shape": shape, "seconds": seconds, "timed": sum(bool(r["times_us"]) for r in few), "seconds of all": seconds_of_all,
            "configurations": len(timed), "spearman": spearman([r["predicted_us"] for r in timed], [measured[r["config"]] for r in timed]),
            "place": 1 + next(i for i, r in enumerate(order) if measured[r["config"]] <= 1.01 * best),
            "lost": measured.get(chosen, float("nan")) / best - 1, "chosen": chosen,
            "rows": [(r["config"], r["predicted_us"], measured[r["config"]]) for r in order]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", help="products, as MxNxK, whose names have one of these texts")
    parser.add_argument("--tegula", default=str(ROOT / "build" / "release" / "tegula"), help="the command")
    parser.add_argument("--budget", type=float, default=400, help="seconds after which no further product is begun")
    parser.add_argument("--out", default="out", help="folder for the results")
    options = parser.parse_args()
    multiprocessing.set_start_method("fork")
    load_module("gemm")
    start, found = time.perf_counter(), []
    folder = pathlib.Path(options.out)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as other:
        all_timed = pathlib.Path(other, "gemm.py")
        for text in (ROOT / "kernels").glob("*.py"):  # what gemm.py imports among them
            pathlib.Path(other, text.name).write_text(re.sub(r', "top_k": \d+', "", text.read_text()))
        for shape in gemm.IRREGULAR:
            name = "x".join(map(str, shape))
            if not wanted(name, options) or time.perf_counter() - start > options.budget:
                continue
            found.append(compare(shape, str(all_timed), options))
            f = found[-1]
            print(f"{name:20} {f['seconds']:6.2f} s for {f['timed']:2}, {f['seconds of all']:6.2f} s for {f['configurations']:2}; Spearman "
                  f"{f['spearman']:5.2f}; within 1 % at place {f['place']:2}; lost {100 * f['lost']:5.2f} %: {f['chosen']}", flush=True)
            (folder / "tuning.json").write_text(json.dumps(found))
    print(f"{len(found)} products: Spearman {statistics.median(f['spearman'] for f in found):.2f} at the median, "
          f"{min(f['spearman'] for f in found):.2f} the least; tuning {statistics.median(f['seconds'] for f in found):.2f} s at the "
          f"median; lost {100 * max(f['lost'] for f in found):.2f} % at most; {time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
