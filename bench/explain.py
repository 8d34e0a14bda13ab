#!/usr/bin/env python3
"""What `tegula explain` says of the kernel library beside what Nsight Compute counts: bytes, time, occupancy, registers.

    bench/explain.py [--only TEXT...] [--sizes 0 1 2] [--jobs 5] [--budget SECONDS] [--out FOLDER] [--explained FILE | --counted FILE...]

Each entry is called at three sizes that no configuration was chosen for, with the configuration that the cost model ranks first
(TEGULA_TUNING=pinned). Several processes explain the launches (TEGULA_EXPLAIN), then one at a time runs them under ncu, with cold
caches and the clocks as they are. --out keeps what both said as JSON; --explained and --counted take a kept half for a new run of it.
"""

import argparse
import csv
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
OF_MANY = "_of_many_programs"  # the entry of a kernel's code that launches of many short programs take
MARKER = "spin_kernel"  # between two cases, of torch.cuda._sleep
METRICS = {
    "us": "gpu__time_duration.sum",
    "from_memory": "dram__bytes_read.sum",
    "to_memory": "dram__bytes_write.sum",
    "read": "lts__t_sectors_srcunit_tex_op_read.sum",
    "written": "lts__t_sectors_srcunit_tex_op_write.sum",
    "reduced": "lts__t_sectors_op_red.sum",
    "atomics": "lts__t_sectors_op_atom.sum",
    "instructions": "smsp__inst_executed.sum",
    "special": "smsp__inst_executed_pipe_xu.sum",
    "occupancy": "sm__warps_active.avg.pct_of_peak_sustained_active",
    "most_occupancy": "sm__maximum_warps_per_active_cycle_pct",
    "clock": "smsp__cycles_elapsed.avg.per_second",
    "registers": "launch__registers_per_thread",
    "grid": "launch__grid_size",
    "threads": "launch__block_size",
}
SECTORS = ("read", "written", "reduced", "atomics")


def cases():
    """(entry, size, function that makes the operands and gives the call)."""
    import torch

    import tegula
    entries = tegula.kernels
    bf16, f16, f32 = torch.bfloat16, torch.float16, torch.float32
    i8, i32, i64, f8 = torch.int8, torch.int32, torch.int64, torch.float8_e4m3fn

    def normal(*shape, dtype=bf16):
        return torch.randn(shape, device="cuda", dtype=f32 if dtype == f8 else dtype).to(dtype)

    def empty(*shape, dtype=bf16):
        return torch.empty(shape, device="cuda", dtype=dtype)

    def below(high, *shape, dtype=i64):
        return torch.randint(0, high, shape, device="cuda", dtype=dtype)

    def entry(name, *given, **named):
        function = getattr(entries, name)
        return lambda: function(*given, **named)

    def on_rows(name, inputs, results=1, columns=(), **named):
        """An entry over matrices: results, then inputs, then vectors of a row's extent by name."""

        def make(size):
            rows, cols, dtype = [(24576, 3072, bf16), (1500, 50000, f32), (50001, 1000, bf16)][size]
            given = [empty(rows, cols, dtype=dtype) for _ in range(results)] + [normal(rows, cols, dtype=dtype) for _ in range(inputs)]
            return entry(name, *given, **{c: normal(cols, dtype=dtype) for c in columns}, **named)

        return name, make

    def to_numbers(name, dtype=f32, **named):
        """An entry that gives a number for each row."""

        def make(size):
            rows, cols, kind = [(24576, 3072, bf16), (1500, 50000, f32), (50001, 1000, bf16)][size]
            return entry(name, empty(rows, dtype=dtype), normal(rows, cols, dtype=kind), **named)

        return name, make

    def of_columns(name, dtype=f32, **named):

        def make(size):
            rows, cols, kind = [(24576, 3072, bf16), (3000, 20000, f32), (200001, 520, bf16)][size]
            return entry(name, empty(1, cols, dtype=dtype), normal(1, rows, cols, dtype=kind), **named)

        return name, make

    def of_all(name):

        def make(size):
            n, kind = [(75_000_000, bf16), (30_000_001, f32), (9_000_000, bf16)][size]
            x = normal(n, dtype=kind)
            return entry(name, empty(1, dtype=f32), x if name == "reduce_all" else x.view(1, n))

        return name, make

    def norm_backward(name, bias):

        def make(size):
            rows, cols, dtype = [(24576, 3072, bf16), (3000, 12000, f32), (100001, 520, bf16)][size]
            results = [empty(rows, cols, dtype=dtype)] + [empty(cols, dtype=dtype) for _ in range(2 if bias else 1)]
            return entry(name, *results, normal(rows, cols, dtype=dtype), normal(rows, cols, dtype=dtype), normal(cols, dtype=dtype))

        return name, make

    def of_images(name):

        def make(size):
            batch, channels, spatial, dtype = [(24, 640, 48 * 48, bf16), (12, 192, 112 * 112, f32), (96, 1280, 13 * 13, bf16)][size]
            x, out = (f(batch, channels, spatial, dtype=dtype) for f in (normal, empty))
            weight = normal(channels, dtype=dtype)
            if name == "batch_norm":
                return entry(name, out, x, weight, normal(channels, dtype=dtype).abs(), activation="relu")
            if name == "group_norm":
                return entry(name, out, x, 32, weight, weight, activation="silu")
            sums = [empty(channels, dtype=dtype) for _ in range(2)]
            return entry(name, out, *sums, normal(batch, channels, spatial, dtype=dtype), x, 32, weight)

        return name, make

    def cross_entropy(size):
        rows, cols, dtype = [(2000, 50304, bf16), (3001, 12000, f32), (700, 151936, bf16)][size]
        return entry("cross_entropy", empty(rows, dtype=f32), normal(rows, cols, dtype=dtype), below(cols, rows))

    def divergence(name):

        def make(size):
            rows, cols, dtype = [(3000, 32000, bf16), (3001, 12000, f32), (700, 151936, bf16)][size]
            return entry(name, empty(rows, dtype=f32), normal(rows, cols, dtype=dtype) - 8, normal(rows, cols, dtype=dtype) - 8)

        return name, make

    def many_tensors(name, lists, **named):

        def make(size):
            sizes = [[2048 * 5000 + 8 * i for i in range(4)], [300_000] * 100, [40_000_001]][size]
            tensors = [[torch.zeros(n, device="cuda") for n in sizes] for _ in range(lists)]
            table = torch.tensor([t.data_ptr() for of_list in tensors for t in of_list], device="cuda").view(lists, len(sizes))
            per_chunk = 1024
            chunks = torch.tensor([[t, c] for t, n in enumerate(sizes) for c in range(-(-n // per_chunk))], device="cuda", dtype=i32)
            given = [table, chunks, torch.tensor(sizes, device="cuda")]
            call = entry(name, *([empty(1, dtype=f32)] if name == "gradient_norm" else []), *given, **named)
            return lambda keep=tensors: call()

        return name, make

    def rope(size):
        tokens, heads, width, dtype = [(12000, 40, 128, bf16), (3000, 24, 96, f32), (100001, 5, 64, bf16)][size]
        angles = [normal(tokens, width // 2, dtype=f32) for _ in range(2)]
        return entry("rope", *(f(tokens, heads, width, dtype=dtype) for f in (empty, normal)), *angles)

    def quantised(name):

        def make(size):
            rows, cols, dtype = [(24576, 3072, bf16), (1500, 49920, f32), (50001, 1024, bf16)][size]
            x, out = normal(rows, cols, dtype=dtype), empty(rows, cols, dtype=i8)
            if name == "quantise_rows":
                return entry(name, out, empty(rows, dtype=f32), x)
            if name == "quantise_groups":
                return entry(name, out, empty(rows, cols // 32, dtype=f32), x)
            if name == "quantise_tensor":
                return entry(name, out, x, normal(1, dtype=f32))
            return entry(name, x, out, normal(rows, 1, dtype=f32))

        return name, make

    def sort_rows(size):
        rows, cols, dtype = [(6000, 3000, f32), (60000, 500, bf16), (20000, 1000, f32)][size]
        return entry("sort_rows", empty(rows, cols, dtype=dtype), empty(rows, cols, dtype=i32), normal(rows, cols, dtype=dtype))

    def topk_rows(size):
        rows, cols, k, dtype = [(6000, 3000, 50, f32), (60000, 500, 8, bf16), (200, 100000, 20, f32)][size]
        return entry("topk_rows", empty(rows, k, dtype=dtype), empty(rows, k, dtype=i32), normal(rows, cols, dtype=dtype))

    def indexed(name):

        def make(size):
            table, rows, cols, dtype = [(32000, 20000, 3072, bf16), (5000, 30000, 1000, f32), (200000, 100001, 200, bf16)][size]
            index, of_table, of_rows = below(table, rows), (table, cols), (rows, cols)
            if name == "embedding":
                return entry(name, empty(*of_rows, dtype=dtype), normal(*of_table, dtype=dtype), index)
            result = torch.zeros(of_table, device="cuda", dtype=f32 if name == "index_add" else dtype)
            return entry(name, result, normal(*of_rows, dtype=dtype), index)

        return name, make

    def histogram(size):
        rows, cols, bins, dtype = [(24576, 3072, 256, bf16), (1500, 50000, 1000, f32), (50001, 1000, 64, bf16)][size]
        return entry("histogram", torch.zeros(bins, device="cuda", dtype=i32), normal(rows, cols, dtype=dtype))

    def sample_rows(size):
        rows, cols = [(1000, 50304), (300, 128256), (64, 32000)][size]
        return entry("sample_rows", empty(rows, dtype=i64), normal(rows, cols), top_p=torch.full((rows, ), 0.9, device="cuda"), seed=7)

    def gemm(size):
        m, n, k = [(3072, 5120, 4096), (6144, 7168, 6144), (512, 12288, 3072)][size]
        return entry("gemm", empty(m, n, dtype=f16), normal(m, k, dtype=f16), normal(k, n, dtype=f16))

    def scaled_gemm(size):
        m, n, k = [(3072, 5120, 4096), (6144, 7168, 6144), (512, 12288, 3072)][size]
        one = torch.full((1, 1), 0.5, device="cuda")
        return entry("scaled_gemm", empty(m, n), normal(m, k, dtype=f8), normal(n, k, dtype=f8).t(), one, one)

    def grouped_gemm(size):
        groups, rows, n, k = [(8, 3000, 1536, 3072), (64, 8192, 2048, 1024), (32, 5000, 1024, 4096)][size]
        ends = torch.tensor([rows * (g + 1) // groups for g in range(groups)], device="cuda", dtype=i32)
        return entry("grouped_gemm", empty(rows, n), normal(rows, k), normal(groups, k, n), ends)

    def batched_gemm(size):
        batch, m, n, k = [(48, 768, 768, 512), (300, 256, 256, 256), (12, 2048, 1024, 1536)][size]
        return entry("batched_gemm", empty(batch, m, n), normal(batch, m, k), normal(batch, k, n))

    def quantised_gemm(size):
        m, n, k = [(1, 12288, 6144), (24, 6144, 12288), (512, 5120, 4096)][size]
        return entry("quantised_gemm", empty(m, n, dtype=f16), normal(m, k, dtype=f16), below(255, n, k // 2, dtype=torch.uint8),
                     normal(n, k // 64, dtype=f16), group="64")

    def conv2d(size):
        batch, size, channels, outputs, kernel = [(24, 40, 256, 384, 3), (8, 96, 128, 128, 3), (64, 28, 512, 256, 1)][size]
        pad = kernel // 2
        return entry("conv2d", empty(batch, size, size, outputs), normal(batch, size, size, channels),
                     normal(outputs, kernel, kernel, channels), padding_h=pad, padding_w=pad)

    def linear_dropout(size):
        m, n, k = [(3072, 5120, 2048), (6144, 7168, 1024), (2048, 12288, 3072)][size]
        return entry("linear_dropout", empty(m, n), empty(m, n), normal(m, k), normal(n, k), 0.1, 7, normal(n))

    def linear_rms_norm(size):
        m, n, k = [(4096, 2048, 2048), (6144, 4096, 1024), (2048, 4096, 3072)][size]
        residual = normal(m, n)
        return entry("linear_rms_norm", empty(m, n), normal(m, k), normal(n, k), normal(n), residual=residual, sum=residual)

    def linear_cross_entropy(size):
        rows, k, vocabulary, chunk = [(3000, 2048, 50304, 1024), (2048, 3072, 32000, 1024), (1000, 1024, 128256, 512)][size]
        x, weight, logits = normal(rows, k), normal(vocabulary, k), empty(chunk, vocabulary)
        return entry("linear_cross_entropy", empty(rows, dtype=f32), empty(rows, k), empty(vocabulary, k), x, weight,
                     below(vocabulary, rows), logits)

    makers = [
        on_rows("softmax", 1), on_rows("log_softmax", 1), on_rows("softmax_scale_bias", 1, scale=1.5, columns=["bias"]),
        on_rows("exp_normalize", 1), on_rows("softmax_backward", 2), on_rows("log_softmax_backward", 2),
        on_rows("rms_norm", 1, columns=["weight"]), on_rows("layer_norm", 1, columns=["weight", "bias"]), on_rows("l2_norm", 1),
        norm_backward("rms_norm_backward", False), norm_backward("layer_norm_backward", True), on_rows("l2_norm_backward", 2),
        of_images("group_norm"), of_images("group_norm_backward"), of_images("batch_norm"),
        ("cross_entropy", cross_entropy), divergence("kl_divergence"), divergence("js_divergence"),
        to_numbers("reduce_rows"), to_numbers("arg_extreme", dtype=i64), to_numbers("variance"), of_all("reduce_all"),
        of_columns("reduce_columns"), of_columns("arg_extreme_columns", dtype=i64), of_columns("variance_columns"),
        on_rows("scan_rows", 1),
        many_tensors("adamw", 4, rate=1e-3, aligned=True), many_tensors("lion", 3, rate=1e-3, aligned=True),
        many_tensors("sgd", 3, rate=1e-3, momentum=0.9, moment="float32", aligned=True),
        many_tensors("gradient_norm", 2, aligned=True),
        on_rows("affine", 1, columns=["bias", "scale"], activation="gelu"), on_rows("swiglu", 2), on_rows("glu", 2, activation="gelu"),
        on_rows("glu_backward", 3, results=2), on_rows("dropout", 1, p=0.1, seed=7), ("rope", rope),
        quantised("quantise_rows"), quantised("quantise_groups"), quantised("quantise_tensor"), quantised("dequantise"),
        of_all("tensor_scale"),
        ("sort_rows", sort_rows), ("topk_rows", topk_rows), ("sample_rows", sample_rows), ("histogram", histogram),
        indexed("embedding"), indexed("embedding_backward"), indexed("index_add"),
        ("gemm", gemm), ("scaled_gemm", scaled_gemm), ("grouped_gemm", grouped_gemm), ("batched_gemm", batched_gemm),
        ("quantised_gemm", quantised_gemm), ("conv2d", conv2d), ("linear_dropout", linear_dropout), ("linear_rms_norm", linear_rms_norm),
        on_rows("linear_dropout_backward", 2, p=0.1, seed=7), ("linear_cross_entropy", linear_cross_entropy),
    ]
    for size in range(3):
        for name, make in makers:
            yield name, size, lambda make=make, size=size: make(size)


def chosen(options):
    return [(f"{name}/{size}", make) for name, size, make in cases()
            if size in options.sizes and (not options.only or any(text in name for text in options.only))]


# ---- One process of either half.


def explain(options, share):
    """Calls the cases of one share; prints a line of JSON each: the case and what was said of its kernels."""
    number, shares = map(int, share.split("/"))
    for label, make in chosen(options)[number::shares]:
        told = pathlib.Path(os.environ["TEGULA_EXPLAIN"])
        told.write_text("")
        failure = None
        try:
            make()()
        except Exception as error:
            failure = str(error)
        kernels = [json.loads(line) for line in told.read_text().splitlines()]
        print(json.dumps({"case": label, "kernels": kernels, "failure": failure}), flush=True)


def run_profiled(options):
    """Calls each case once to make it ready, then between markers."""
    import torch
    until = time.perf_counter() + options.budget
    for label, make in chosen(options):
        if time.perf_counter() > until:
            break
        try:
            call = make()
            call()
            torch.cuda.synchronize()
        except Exception as error:
            print(f"{label}: {error}", file=sys.stderr, flush=True)
            call = lambda: None
        torch.cuda.cudart().cudaProfilerStart()
        torch.cuda._sleep(1)
        call()
        torch.cuda.synchronize()
        torch.cuda.cudart().cudaProfilerStop()


# ---- Both halves, and the table.


def own_command(options, role):
    only = ["--only", *options.only] if options.only else []
    return [sys.executable, __file__, "--role", role, "--sizes", *map(str, options.sizes), "--budget",
            str(options.budget), *only]


def environment(**more):
    path = os.pathsep.join(filter(None, [str(HERE.parent / "bindings" / "python"), os.environ.get("PYTHONPATH")]))
    return dict(os.environ, PYTHONPATH=path, TEGULA_TUNING="pinned", **more)


def explained(options):
    with tempfile.TemporaryDirectory() as folder:
        jobs = [
            subprocess.Popen(own_command(options, f"explain:{i}/{options.jobs}"), stdout=subprocess.PIPE, text=True,
                             env=environment(TEGULA_EXPLAIN=f"{folder}/{i}")) for i in range(options.jobs)
        ]
        lines = [line for job in jobs for line in job.communicate()[0].splitlines() if line.startswith("{")]
    return {found["case"]: found for found in map(json.loads, lines)}


def counted(options):
    """What ncu counts of each case's launches, in order."""
    with tempfile.TemporaryDirectory() as folder:
        log = pathlib.Path(folder) / "ncu.csv"
        command = ["ncu", "--csv", "--page", "raw", "--print-units", "base", "--clock-control", "none", "--profile-from-start",
                   "off", "--metrics", ",".join(METRICS.values()), "--log-file", str(log)]
        subprocess.run(command + own_command(options, "profile"), env=environment(), check=True)
        lines = [line for line in log.read_text().splitlines() if line.startswith('"')]
    rows = list(csv.DictReader(lines))[1:]  # the first one has the units
    launches, labels = {}, iter([label for label, _ in chosen(options)])
    for row in rows:
        if MARKER in row["Kernel Name"]:
            launches[label := next(labels)] = []
            continue
        found = {key: number(row.get(metric)) for key, metric in METRICS.items()}
        found["us"] /= 1e3
        for key in SECTORS:
            found[key] *= 32
        launches[label].append(dict(found, kernel=row["Kernel Name"].partition("(")[0]))
    return launches


def number(text):
    try:
        return float(text.replace(",", ""))
    except (AttributeError, ValueError):
        return math.nan


def ratio(said, counts):
    return said / counts if counts else math.nan


def compare(explanations, counts):
    """A row for each kernel that was explained and counted: predicted by measured, said by counted."""
    rows = []
    for label, launches in counts.items():
        told = explanations.get(label, {"kernels": []})
        if told.get("failure"):
            print(f"{label}: {told['failure']}")
        for said in told["kernels"]:
            if "error" in said:
                print(f"{label}: {said['kernel']}: {said['error']}")
                continue
            threads = said["programs"] * said["threads"]
            of_it = [l for l in launches if l["kernel"].removesuffix(OF_MANY) == said["kernel"] and l["grid"] * l["threads"] == threads]
            if not of_it:
                print(f"{label}: {said['kernel']} of {threads} threads was not counted")
                continue
            found = of_it[0]
            rows.append({
                "case": label, "kernel": said["kernel"], "us": found["us"], "predicted_us": said["predicted_us"],
                "time": said["predicted_us"] / found["us"], "from_memory": ratio(said["from_memory"], found["from_memory"]),
                "read": ratio(said["read"], found["read"]),
                "written": ratio(said["written"], sum(found[key] for key in SECTORS[1:] if found.get(key, 0) > 0)),
                "registers": said["registers"] - found["registers"], "occupancy": said["occupancy"],
                "most_occupancy": found["most_occupancy"] / 100, "reached_occupancy": found["occupancy"] / 100, "bound": said["bound"],
                "instructions": ratio(said["instructions"], found["instructions"]),
                "special": ratio(said["special_instructions"], found["special"]),
                "terms": [said["memory_us"], said["compute_us"], said["latency_us"]],
                "product": any("product" in u["name"] or "tensor" in u["name"] for u in said["units"]), "config": said["config"],
            })
    return rows


def report(rows):
    print(f"{'case':28}{'kernel':22}{'us':>8} {'said':>8} {'time':>6} {'memory':>7} {'read':>6} {'write':>6} {'instr':>6} {'occ':>5} "
          f"{'ncu':>5} {'reach':>5} {'bound':8} memory, instructions, waits")
    for r in sorted(rows, key=lambda r: -abs(math.log(r["time"]))):
        print(f"{r['case'][:27]:28}{r['kernel'][:21]:22}{r['us']:8.1f} {r['predicted_us']:8.1f} {r['time']:6.3f} "
              f"{r['from_memory']:7.3f} {r['read']:6.3f} {r['written']:6.3f} {r['instructions']:6.2f} {r['occupancy']:5.2f} "
              f"{r['most_occupancy']:5.2f} {r['reached_occupancy']:5.2f} {r['bound'][:8]:8} {', '.join(f'{t:.1f}' for t in r['terms'])}  {r['config']}")
    for name, products, most in (("memory-bound", False, 0.15), ("products", True, 0.2)):
        of = [r for r in rows if r["product"] == products]
        near = sum(abs(r["time"] - 1) <= most for r in of)
        bytes_near = sum(abs(r["from_memory"] - 1) <= 0.05 for r in of)
        if of:
            print(f"{name}: {near} of {len(of)} times within {most:.0%}, median {statistics.median(r['time'] for r in of):.3f}; "
                  f"bytes from memory within 5 %: {bytes_near}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=[])
    parser.add_argument("--sizes", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--jobs", type=int, default=5)
    parser.add_argument("--budget", type=float, default=1000, help="seconds after which no further case is counted")
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--explained", type=pathlib.Path)
    parser.add_argument("--counted", type=pathlib.Path, nargs="+")
    parser.add_argument("--role", default="both", help="both, explain, count: these alone; others are for the program itself")
    options = parser.parse_args()
    if options.role.startswith("explain:"):
        return explain(options, options.role.partition(":")[2])
    if options.role == "profile":
        return run_profiled(options)

    def kept(name, made):
        if options.out:
            options.out.mkdir(parents=True, exist_ok=True)
            (options.out / f"{name}.json").write_text(json.dumps(made))
        return made

    explanations, counts = {}, {}
    if options.role != "count":
        explanations = json.loads(options.explained.read_text()) if options.explained else kept("explained", explained(options))
    if options.role != "explain":
        for file in options.counted or []:
            counts |= json.loads(file.read_text())
        if not options.counted:
            counts = kept("counted", counted(options))
    if options.role == "both":
        rows = compare(explanations, counts)
        kept("rows", rows)
        report(rows)


if __name__ == "__main__":
    main()
