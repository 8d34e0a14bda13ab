#!/usr/bin/env python3
"""Does the cost model rank, how long does tuning take, and what does it lose? Products and row kernels of the library.

    bench/tuning.py [products rows] [--shapes MxNxK ...] [--random 8] [--seed 5] [--epilogue none] [--sizes 0 1 2] [--only TEXT...] [--budget SECONDS]
                    [--tegula build/release/tegula] [--caches FOLDER] [--out FOLDER]

Products are the irregular ones of gemm.py and as many random ones of products.py; rows are the calls of explain.py whose kernels
have several configurations and no product. Of each all configurations are timed, by the tuner, in one process with an empty cache. A line
says of each: Spearman's rank correlation of predicted and measured times, the place at which the model has the first configuration
that is within 1 % of the best one, and what is lost where the first six are timed alone. Products are tuned as the library does it
first: seconds of each first call, compilation included (CUDA_CACHE_DISABLE=1 leaves out what the driver remembers). Then all
configurations are timed in a process that has the first one's cache, so that its choices run in turn with the best of the others: by
these rounds it is said what the choices lose. Times of different processes differ by more, up to 15 % for the same code.
"""

import argparse
import concurrent.futures
import json
import multiprocessing
import os
import pathlib
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path[:0] = [str(HERE), str(ROOT / "bindings" / "python")]
FEW = 6  # configurations that tuning a product times
ROUNDS = 9  # that the last few run in turn, at least
PRODUCTS = ("gemm", "conv2d", "linear_cross_entropy", "linear_dropout", "linear_rms_norm")  # entries with products: parts of names


def ranks(values):
    """Equal values have the mean of their places."""
    order = sorted(range(len(values)), key=values.__getitem__)
    found, i = [0.0] * len(values), 0
    while i < len(order):
        end = i
        while end < len(order) and values[order[end]] == values[order[i]]:
            end += 1
        for k in order[i:end]:
            found[k] = (i + end - 1) / 2
        i = end
    return found


def spearman(a, b):
    if len(set(a)) < 2 or len(set(b)) < 2:
        return float("nan")
    return statistics.correlation(ranks(a), ranks(b))


# ---- Processes that tune, each with a cache of its own.


def product_shapes(options):
    import gemm
    import products
    shapes = gemm.IRREGULAR + products.random_shapes(options.random, options.seed)
    if options.shapes:
        shapes = [tuple(map(int, shape.split("x"))) for shape in options.shapes]
    return [s for s in dict.fromkeys(shapes) if wanted("x".join(map(str, s)), options)]


def wanted(name, options):
    return not options.only or any(text in name for text in options.only)


def matrices(m, n, k):
    """Operands and room for the result; B of the random ones is transposed, as products.py has it."""
    import torch

    import gemm
    normal = lambda *shape: torch.randn(*shape, device="cuda").to(torch.float16)
    b = normal(k, n) if (m, n, k) in gemm.IRREGULAR else normal(n, k).T
    return torch.empty(m, n, device="cuda", dtype=torch.float16), normal(m, k), b / k**0.5


def check(c, a, b):
    import harness
    error = harness.relative_error(c, a.float() @ b.float())
    if not error < 5e-3:
        raise RuntimeError(f"WRONG RESULT: {error}")


def timed_call(call):
    import torch
    torch.cuda.synchronize()
    start = time.perf_counter()
    call()
    torch.cuda.synchronize()
    return time.perf_counter() - start


def tune_product(shape, options):
    import tegula
    c, a, b = matrices(*shape)
    seconds = timed_call(lambda: tegula.kernels.gemm(c, a, b, epilogue=options.epilogue))
    if options.epilogue == "none":
        check(c, a, b)
    return seconds


def tune_all_tiles(options, answer):
    os.environ["TEGULA_TUNING"] = "all"
    for shape in product_shapes(options):
        answer.send((shape, tune_product(shape, options)))


def tune_products(options, answer):
    """First calls by `--threads` threads: seconds of each, and of all."""
    import torch

    import tegula
    shapes = product_shapes(options)
    operands = [matrices(*shape) for shape in shapes]
    call = lambda given: timed_call(lambda: tegula.kernels.gemm(*given, epilogue=options.epilogue))
    torch.cuda.synchronize()
    start = time.perf_counter()
    with concurrent.futures.ThreadPoolExecutor(options.threads) as pool:
        seconds = list(pool.map(call, operands))
    whole = time.perf_counter() - start
    if options.epilogue == "none":
        for given in operands:
            check(*given)
    for shape, taken in zip(shapes, seconds):
        answer.send((shape, taken))
    answer.send(("all", whole))


def tune_rows(options, answer):
    import torch

    import explain_cases
    for name, size, make in explain_cases.cases():
        if size not in options.sizes or any(p in name for p in PRODUCTS) or not wanted(f"{name}/{size}", options):
            continue
        torch.manual_seed(0)
        try:
            answer.send((f"{name}/{size}", timed_call(make())))
        except Exception as error:
            print(f"{name}/{size}: {error}", flush=True)
        torch.cuda.empty_cache()


def in_processes(works, options):
    """Of each process, which all have the same cache: what it sends, and the rows that tuning has stored by its end."""
    if options.caches:
        folder = pathlib.Path(options.caches, works[0].__name__)
        folder.mkdir(parents=True, exist_ok=True)
        return [in_process_with(str(folder), work, options) for work in works]
    with tempfile.TemporaryDirectory() as folder:
        return [in_process_with(folder, work, options) for work in works]


def in_process_with(cache, work, options):

    def run(answer):
        os.environ["TEGULA_CACHE_DIR"] = cache
        work(options, answer)

    there, here = multiprocessing.Pipe(False)
    process = multiprocessing.Process(target=run, args=(here, ))
    process.start()
    here.close()
    sent, until = [], time.perf_counter() + options.budget
    try:
        while there.poll(max(0.1, until - time.perf_counter())):
            sent.append(there.recv())
            if time.perf_counter() > until:
                break
    except EOFError:
        pass
    process.terminate()
    process.join()
    rows = pathlib.Path(cache, "rows.jsonl")
    subprocess.run([options.tegula, "cache", "--export", str(rows)], check=True, stdout=subprocess.DEVNULL,
                   env=os.environ | {"TEGULA_CACHE_DIR": cache})
    return sent, [json.loads(line) for line in rows.read_text().splitlines()]


# ---- What follows from the rows.


def problems(rows):
    """{kernel and key: rows}, of those with several configurations."""
    found = {}
    for row in rows:
        found.setdefault((row["kernel"].split()[0], row["key"]), []).append(row)
    return {key: some for key, some in found.items() if sum(bool(r["times_us"]) for r in some) > 2}


def judge(rows):
    """Spearman's correlation, the place, and what is lost by timing the first few."""
    timed = [r for r in rows if r["times_us"] and r["predicted_us"] > 0]
    measured = {r["config"]: statistics.median(r["times_us"]) for r in timed}
    order = sorted(timed, key=lambda r: r["predicted_us"])
    best = min(measured.values())
    return {
        "configurations": len(timed), "best_us": best, "measured": measured,
        "spearman": spearman([r["predicted_us"] for r in timed], [measured[r["config"]] for r in timed]),
        "place": 1 + next(i for i, r in enumerate(order) if measured[r["config"]] <= 1.01 * best),
        "lost": min(measured[r["config"]] for r in order[:FEW]) / best - 1,
        "time": statistics.median(r["predicted_us"] / measured[r["config"]] for r in timed),
    }


def print_judged(name, found):
    print(f"{name[:70]:70} {found['configurations']:3} configurations, best {found['best_us']:8.2f} us; Spearman {found['spearman']:5.2f}; "
          f"within 1 % at place {found['place']:2}; the first {FEW} lose {100 * found['lost']:5.2f} %; predicted / measured "
          f"{found['time']:.2f}", flush=True)


def summary(what, all_found):
    known = [f["spearman"] for f in all_found if f["spearman"] == f["spearman"]]
    if known:
        lost = [f["lost"] for f in all_found]
        print(f"{what}: {len(all_found)} sets, Spearman {statistics.median(known):.2f} at the median, {min(known):.2f} the least, "
              f"{sum(s >= 0.8 for s in known)} at least 0.8; the first {FEW} lose {100 * statistics.mean(lost):.2f} % on average, "
              f"{100 * max(lost):.2f} % at most, more than 1 % in {sum(l > 0.01 for l in lost)}", flush=True)


def lost(rows, chosen):
    """What the chosen configuration loses against the best of those that ran in turn with it; None where it did not run so."""
    in_turn = {r["config"]: statistics.median(r["times_us"]) for r in rows if len(r["times_us"]) >= ROUNDS}
    return in_turn[chosen] / min(in_turn.values()) - 1 if chosen in in_turn else None


def of_shape(key):
    values = dict(re.findall(r"(m_class|N|K)=(\d+)", key))
    rows = "1" if key.split()[4].endswith("=1") else values.get("m_class", "?")
    return "x".join([rows, values.get("N", "?"), values.get("K", "?")])


def compare_products(options, kept):
    (sent, tuned), (_, rows) = in_processes([tune_products, tune_all_tiles], options)
    kept("tuned_products", {"sent": sent, "rows": tuned})
    kept("products", {"rows": rows})
    judged = {key: judge(some) for (_, key), some in problems(rows).items()}
    for key, found in judged.items():
        print_judged(of_shape(key), found)
    summary("products", judged.values())
    chosen = {r["key"]: r["config"] for r in tuned if r.get("winner")}
    losses = {}
    for (_, key), some in problems(rows).items():
        if (loss := lost(some, chosen.get(key))) is not None:
            losses[of_shape(key)] = loss
    seconds = [s for shape, s in sent if shape != "all"]
    if seconds:
        print(f"tuned as the library does, by {options.threads} threads: {len(seconds)} products in {sent[-1][1]:.2f} s, {statistics.median(seconds):.2f} s at the median, "
              f"{max(seconds):.2f} s at most", flush=True)
    if losses:
        print(f"{len(losses)} choices lose {100 * statistics.mean(losses.values()):.2f} % on average, more than 1 %: " +
              (", ".join(f"{shape} {100 * loss:.1f} %" for shape, loss in losses.items() if loss > 0.01) or "none"), flush=True)


def compare_rows(options, kept):
    [(sent, rows)] = in_processes([tune_rows], options)
    kept("rows", {"sent": sent, "rows": rows})
    judged = {key: judge(some) for key, some in problems(rows).items()}
    for (kernel, key), found in judged.items():
        print_judged(f"{kernel} {key}", found)
    summary("rows", judged.values())
    seconds = [s for _, s in sent]
    if seconds:
        print(f"{len(seconds)} calls tuned in {sum(seconds):.1f} s, {statistics.median(seconds):.2f} s at the median", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", default=["products", "rows"], help="products, rows; both by default")
    parser.add_argument("--random", type=int, default=8, help="random products beside the irregular ones")
    parser.add_argument("--shapes", nargs="+", metavar="MxNxK", help="these products alone")
    parser.add_argument("--seed", type=int, default=5)
    parser.add_argument("--epilogue", default="none", help="of the products; results are checked where it is none")
    parser.add_argument("--threads", type=int, default=1, help="that make the first calls of the products as the library tunes them")
    parser.add_argument("--sizes", nargs="+", type=int, default=[0, 1, 2], help="of the calls of explain.py")
    parser.add_argument("--only", nargs="+", help="products, as MxNxK, or entries whose names have one of these texts")
    parser.add_argument("--tegula", default=str(ROOT / "build" / "release" / "tegula"), help="the command")
    parser.add_argument("--budget", type=float, default=200, help="seconds after which no further call is waited for, of each process")
    parser.add_argument("--caches", help="folder for the caches, which are removed otherwise")
    parser.add_argument("--out", default="out", help="folder for the results")
    options = parser.parse_args()
    multiprocessing.set_start_method("fork")
    folder = pathlib.Path(options.out)
    folder.mkdir(parents=True, exist_ok=True)

    def kept(name, found):
        (folder / f"tuning_{name}.json").write_text(json.dumps(found))

    for what in options.what:
        {"products": compare_products, "rows": compare_rows}[what](options, kept)


if __name__ == "__main__":
    main()
