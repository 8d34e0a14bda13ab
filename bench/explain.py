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


def chosen(options):
    from explain_cases import cases  # asks for torch, which the table does not
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
